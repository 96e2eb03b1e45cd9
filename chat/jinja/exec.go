package jinja

import "fmt"

// exec runs statements in the current scope.
func (r *run) exec(body []stmt) (signal, error) {
	for _, s := range body {
		err := r.enter()
		sig := sigNone
		if err == nil {
			sig, err = s.exec(r)
		}
		r.depth--
		if err != nil {
			return sigNone, atLine(err, s.line())
		}
		if sig != sigNone {
			return sig, nil
		}
	}
	return sigNone, nil
}

func (s *dataStmt) exec(r *run) (signal, error) { return sigNone, r.print(s.text) }

func (s *printStmt) exec(r *run) (signal, error) {
	v, err := r.eval(s.x)
	if err != nil {
		return sigNone, err
	}
	text, err := r.str(v)
	if err != nil {
		return sigNone, err
	}
	return sigNone, r.print(text)
}

func (s *ifStmt) exec(r *run) (signal, error) {
	for i, test := range s.tests {
		v, err := r.eval(test)
		if err != nil {
			return sigNone, err
		}
		if truth(v) {
			return r.exec(s.bodies[i])
		}
	}
	return r.exec(s.otherwise)
}

func (s *forStmt) exec(r *run) (signal, error) {
	v, err := r.eval(s.iter)
	if err != nil {
		return sigNone, err
	}
	return sigNone, s.over(r, r.scope, v, 0)
}

// over runs the loop on the elements of v. A recursive loop comes back here with a greater depth.
func (s *forStmt) over(r *run, parent *scope, v Value, depth int64) error {
	items, err := r.iterate(v)
	if err != nil {
		return err
	}
	return r.within(parent, func() error {
		if s.test != nil {
			if items, err = s.selected(r, items); err != nil {
				return err
			}
		}
		if len(items) == 0 {
			_, err := r.exec(s.otherwise)
			return err
		}
		l := &loop{def: s, items: items, parent: parent, depth0: depth}
		own := r.scope
		for i, item := range items {
			if own.held {
				own = &scope{parent: parent}
				r.scope = own
			}
			own.clear()
			l.i = i
			if err := r.scan(0); err != nil {
				return err
			}
			if err := r.assign(&s.target, item); err != nil {
				return err
			}
			own.set("loop", l)
			sig, err := r.exec(s.body)
			if err != nil {
				return err
			}
			if sig == sigBreak {
				break
			}
		}
		return nil
	})
}

// selected returns the items for which the loop's condition holds.
func (s *forStmt) selected(r *run, items []Value) ([]Value, error) {
	var kept []Value
	for _, item := range items {
		r.scope.clear()
		if err := r.assign(&s.target, item); err != nil {
			return nil, err
		}
		ok, err := r.eval(s.test)
		if err != nil {
			return nil, err
		}
		if truth(ok) {
			kept = append(kept, item)
		}
	}
	r.scope.clear()
	return kept, nil
}

// assign gives v to a target in the current scope.
func (r *run) assign(t *target, v Value) error {
	switch {
	case t.attr != "":
		obj, err := r.lookup(t.name)
		if err != nil {
			return err
		}
		ns, ok := obj.(*namespace)
		if !ok {
			return fmt.Errorf("cannot assign attribute %q: expected %q to be a namespace, found %q", t.attr, t.name, typeName(obj))
		}
		ns.vars.Set(t.attr, v)
	case t.tuple != nil:
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.tuple) {
			return fmt.Errorf("cannot unpack: expected %d values, found %d", len(t.tuple), len(items))
		}
		for i := range t.tuple {
			if err := r.assign(&t.tuple[i], items[i]); err != nil {
				return err
			}
		}
	default:
		r.scope.set(t.name, v)
	}
	return nil
}

func (s *setStmt) exec(r *run) (signal, error) {
	v, err := r.eval(s.x)
	if err != nil {
		return sigNone, err
	}
	return sigNone, r.assign(&s.target, v)
}

// bodyText runs a body in a scope of its own and returns what it prints, after filters, which may be nil.
func (r *run) bodyText(body []stmt, filter *filterExpr) (Value, error) {
	text, err := r.capture(func() error {
		return r.within(r.scope, func() error {
			_, err := r.exec(body)
			return err
		})
	})
	if err != nil || filter == nil {
		return text, err
	}
	return filter.applyChain(r, text)
}

func (s *setBlockStmt) exec(r *run) (signal, error) {
	v, err := r.bodyText(s.body, s.filter)
	if err != nil {
		return sigNone, err
	}
	return sigNone, r.assign(&s.target, v)
}

func (s *filterStmt) exec(r *run) (signal, error) {
	v, err := r.bodyText(s.body, s.filter)
	if err != nil {
		return sigNone, err
	}
	text, err := r.str(v)
	if err != nil {
		return sigNone, err
	}
	return sigNone, r.print(text)
}

func (s *withStmt) exec(r *run) (sig signal, err error) {
	values, err := r.evalAll(s.values)
	if err != nil {
		return sigNone, err
	}
	err = r.within(r.scope, func() error {
		for i := range s.targets {
			if err := r.assign(&s.targets[i], values[i]); err != nil {
				return err
			}
		}
		sig, err = r.exec(s.body)
		return err
	})
	return sig, err
}

func (s *scopeStmt) exec(r *run) (sig signal, err error) {
	err = r.within(r.scope, func() error {
		sig, err = r.exec(s.body)
		return err
	})
	return sig, err
}

func (s *loopStmt) exec(*run) (signal, error) { return s.sig, nil }
