package jinja

import (
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode"
)

// textFilter makes a filter of a function on text; the input is printed first, as in Python's str.
func textFilter(f func(r *run, s string, a []Value) (Value, error), params ...param) *builtin {
	return &builtin{params: params, fn: func(r *run, in Value, a []Value) (Value, error) {
		s, err := r.str(in)
		if err != nil {
			return nil, err
		}
		return f(r, s, a)
	}}
}

// asMethod makes a filter of the string method of the same meaning.
func asMethod(name string) *builtin {
	m := stringMethods[name]
	return textFilter(func(r *run, s string, a []Value) (Value, error) { return m.fn(r, s, a) }, m.params...)
}

func addTextFilters(f map[string]*builtin) {
	f["string"], f["safe"] = &builtin{fn: filterString}, mark(func(s string) string { return s })
	f["upper"], f["lower"], f["capitalize"] = asMethod("upper"), asMethod("lower"), asMethod("capitalize")
	f["trim"] = asMethod("strip")
	f["center"] = textFilter(func(r *run, s string, a []Value) (Value, error) {
		return pad(r, s, a[0], " ", centred)
	}, opt("width", int64(80)))
	f["title"] = textFilter(filterTitle)
	f["replace"] = textFilter(filterReplace, req("old"), req("new"), opt("count", nil))
	f["indent"] = &builtin{params: []param{opt("width", int64(4)), opt("first", false), opt("blank", false)}, fn: filterIndent}
	f["truncate"] = &builtin{params: []param{opt("length", int64(255)), opt("killwords", false), opt("end", "..."),
		opt("leeway", int64(5))}, fn: filterTruncate}
	f["wordcount"] = textFilter(func(_ *run, s string, _ []Value) (Value, error) {
		return int64(len(strings.FieldsFunc(s, func(c rune) bool {
			return c != '_' && !unicode.IsLetter(c) && !unicode.IsNumber(c)
		}))), nil
	})
	f["format"] = &builtin{raw: filterFormat}
	f["urlencode"] = textFilter(func(r *run, s string, _ []Value) (Value, error) {
		return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"), "%2F", "/"), nil
	})
	f["escape"] = mark(html.EscapeString)
	f["e"], f["forceescape"] = f["escape"], f["escape"]
	f["replace"].unmarks, f["format"].unmarks, f["urlencode"].unmarks = true, true, true
}

// mark makes a filter whose result counts as HTML.
func mark(f func(s string) string) *builtin {
	return textFilter(func(_ *run, s string, _ []Value) (Value, error) { return markup(f(s)), nil })
}

// filterString is str(in), except that a list of dicts, such as the tools, gives JSON: templates that write
// "tools | string" were made with renderers that do so, and reference renderings have it.
func filterString(r *run, in Value, _ []Value) (Value, error) {
	if l, ok := in.(*List); ok && l.kind == kindList && len(l.items) > 0 {
		dicts := 0
		for _, item := range l.items {
			if _, ok := item.(*Dict); ok {
				dicts++
			}
		}
		if dicts == len(l.items) {
			b, err := r.writeJSON(nil, in, &jsonStyle{comma: ", ", colon: ": "}, 0)
			return string(b), err
		}
	}
	return r.str(in)
}

// filterTitle capitalises what follows spaces, hyphens and opening brackets.
func filterTitle(_ *run, s string, _ []Value) (Value, error) {
	var b strings.Builder
	first := true
	for _, c := range s {
		if isSpace(c) || strings.ContainsRune("-({[<", c) {
			first = true
			b.WriteRune(c)
			continue
		}
		if first {
			b.WriteString(upper(string(c)))
		} else {
			b.WriteRune(unicode.ToLower(c))
		}
		first = false
	}
	return b.String(), nil
}

func filterReplace(r *run, s string, a []Value) (Value, error) {
	old, err := r.str(a[0])
	if err != nil {
		return nil, err
	}
	with, err := r.str(a[1])
	if err != nil {
		return nil, err
	}
	return replace(r, s, old, with, a[2])
}

func filterIndent(r *run, in Value, a []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		if u, ok := in.(*undefined); ok {
			return nil, u.err()
		}
		return nil, fmt.Errorf("expected a string, found %q", typeName(in))
	}
	by, ok := a[0].(string)
	if !ok {
		n, isInt := asInt(a[0])
		if !isInt {
			return nil, errors.New("width must be an integer or a string")
		}
		if err := r.spendTimes(1, max(n, 0)); err != nil {
			return nil, err
		}
		by = strings.Repeat(" ", int(max(n, 0)))
	}
	lines := splitLines(s+"\n", false)
	if err := r.spendTimes(len(by), int64(len(lines))); err != nil {
		return nil, err
	}
	for i := range lines {
		if i == 0 && truth(a[1]) || i > 0 && (truth(a[2]) || lines[i] != "") {
			lines[i] = by + lines[i]
		}
	}
	return strings.Join(lines, "\n"), nil
}

func filterTruncate(r *run, in Value, a []Value) (Value, error) {
	s, ok := in.(string)
	length, okLen := asInt(a[0])
	end, okEnd := a[2].(string)
	if a[3] == nil {
		a[3] = int64(5)
	}
	leeway, okLee := asInt(a[3])
	if !ok || !okLen || !okEnd || !okLee {
		return nil, errors.New("expected a string, and a length, an end and a leeway of the right types")
	}
	keep := length - int64(runeLen(end))
	if keep < 0 || leeway < 0 {
		return nil, fmt.Errorf("expected a length of at least %d, found %d", runeLen(end), length)
	}
	n := int64(runeLen(s))
	if n <= length+leeway {
		return s, nil
	}
	cut := sliceText(s, 0, min(keep, n), 1)
	if !truth(a[1]) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return cut + end, nil
}

// filterFormat is s % args.
func filterFormat(r *run, in Value, a *callArgs) (Value, error) {
	s, err := r.str(in)
	if err != nil {
		return nil, err
	}
	if len(a.kwNames) == 0 {
		return r.percentFormat(s, tuple(a.pos...))
	}
	if len(a.pos) > 0 {
		return nil, errors.New("takes positional or keyword arguments, not both")
	}
	d := NewDict()
	for i, n := range a.kwNames {
		d.Set(n, a.kwVals[i])
	}
	return r.percentFormat(s, d)
}
