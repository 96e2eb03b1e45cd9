package jinja

import "fmt"

// macro is a macro's value: its definition and the scope it was defined in.
type macro struct {
	def   *macroDef
	scope *scope
}

// macro makes a macro of a definition in the current scope.
func (r *run) macro(def *macroDef) *macro {
	for s := r.scope; s != nil && !s.held; s = s.parent {
		s.held = true
	}
	return &macro{def, r.scope}
}

func (s *macroStmt) exec(r *run) (signal, error) {
	r.scope.set(s.def.name, r.macro(s.def))
	return sigNone, nil
}

func (s *callStmt) exec(r *run) (signal, error) {
	fn, err := r.eval(s.call.fn)
	if err != nil {
		return sigNone, err
	}
	a, err := r.arguments(&s.call.args)
	if err != nil {
		return sigNone, err
	}
	a.kwNames = append(a.kwNames[:len(a.kwNames):len(a.kwNames)], "caller")
	a.kwVals = append(a.kwVals, r.macro(s.caller))
	v, err := r.callValue(fn, a)
	if err != nil {
		return sigNone, err
	}
	text, err := r.str(v)
	if err != nil {
		return sigNone, err
	}
	return sigNone, r.print(text)
}

// callMacro runs a macro and returns what it prints.
func (r *run) callMacro(m *macro, a *callArgs) (Value, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer func() { r.depth-- }()
	text, err := r.capture(func() error {
		return r.within(m.scope, func() error {
			if err := r.bindMacro(m.def, a); err != nil {
				return fmt.Errorf("macro %s: %w", m.def.name, err)
			}
			_, err := r.exec(m.def.body)
			return err
		})
	})
	return text, err
}

// bindMacro sets a macro's parameters, and caller, varargs and kwargs where its body uses them, in the current scope.
func (r *run) bindMacro(def *macroDef, a *callArgs) error {
	used := make([]bool, len(a.kwNames))
	take := func(name string) (Value, bool) {
		for i, n := range a.kwNames {
			if n == name && !used[i] {
				used[i] = true
				return a.kwVals[i], true
			}
		}
		return nil, false
	}
	hasCaller := false
	for i, p := range def.params {
		hasCaller = hasCaller || p == "caller"
		v, given := Value(nil), i < len(a.pos)
		if given {
			v = a.pos[i]
		} else if v, given = take(p); !given {
			v = &undefined{fmt.Sprintf("parameter %q was not provided", p)}
			if d := i - (len(def.params) - len(def.defaults)); d >= 0 {
				var err error
				if v, err = r.eval(def.defaults[d]); err != nil {
					return err
				}
			}
		}
		r.scope.set(p, v)
	}
	if def.usesCaller && !hasCaller {
		v, given := take("caller")
		if !given {
			v = &undefined{"the macro was not called by a call block: there is no caller"}
		}
		r.scope.set("caller", v)
	}
	rest := NewDict()
	for i, n := range a.kwNames {
		if !used[i] {
			rest.Set(n, a.kwVals[i])
		}
	}
	if def.usesKwargs {
		r.scope.set("kwargs", rest)
	} else if rest.Len() > 0 {
		return fmt.Errorf("takes no argument %q", rest.keys[0])
	}
	extra := a.pos[min(len(def.params), len(a.pos)):]
	if def.usesVarargs {
		r.scope.set("varargs", tuple(extra...))
	} else if len(extra) > 0 {
		return fmt.Errorf("takes at most %d arguments, found %d", len(def.params), len(a.pos))
	}
	return nil
}
