package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

func onString(f func(r *run, s string, a []Value) (Value, error), params ...param) *builtin {
	return &builtin{params: params, fn: func(r *run, self Value, a []Value) (Value, error) { return f(r, self.(string), a) }}
}

// mapped makes a method without arguments.
func mapped(f func(s string) Value) *builtin {
	return onString(func(_ *run, s string, _ []Value) (Value, error) { return f(s), nil })
}

func initStringMethods() {
	sub, chars := req("sub"), opt("chars", nil)
	stringMethods = map[string]*builtin{
		"upper":      mapped(func(s string) Value { return upper(s) }),
		"lower":      mapped(func(s string) Value { return strings.ToLower(s) }),
		"casefold":   mapped(func(s string) Value { return strings.ReplaceAll(strings.ToLower(s), "ß", "ss") }),
		"capitalize": mapped(func(s string) Value { return titleCase(s, true) }),
		"title":      mapped(func(s string) Value { return titleCase(s, false) }),
		"swapcase": mapped(func(s string) Value {
			return strings.Map(func(c rune) rune {
				if unicode.IsUpper(c) {
					return unicode.ToLower(c)
				}
				return unicode.ToUpper(c)
			}, s)
		}),
		"strip":  onString(stripper(true, true), chars),
		"lstrip": onString(stripper(true, false), chars),
		"rstrip": onString(stripper(false, true), chars),
		"split":  onString(splitter(false), opt("sep", nil), opt("maxsplit", int64(-1))),
		"rsplit": onString(splitter(true), opt("sep", nil), opt("maxsplit", int64(-1))),
		"splitlines": onString(func(_ *run, s string, a []Value) (Value, error) {
			return stringList(splitLines(s, truth(a[0]))), nil
		}, opt("keepends", false)),
		"partition":  onString(partition(strings.Index, false), req("sep")),
		"rpartition": onString(partition(strings.LastIndex, true), req("sep")),
		"startswith": onString(affix(strings.HasPrefix), req("prefix"), opt("start", nil), opt("end", nil)),
		"endswith":   onString(affix(strings.HasSuffix), req("suffix"), opt("start", nil), opt("end", nil)),
		"removeprefix": onString(func(_ *run, s string, a []Value) (Value, error) {
			p, err := text(a[0])
			return strings.TrimPrefix(s, p), err
		}, req("prefix")),
		"removesuffix": onString(func(_ *run, s string, a []Value) (Value, error) {
			p, err := text(a[0])
			return strings.TrimSuffix(s, p), err
		}, req("suffix")),
		"find":  onString(finder(strings.Index, false), sub, opt("start", nil), opt("end", nil)),
		"rfind": onString(finder(strings.LastIndex, false), sub, opt("start", nil), opt("end", nil)),
		"index": onString(finder(strings.Index, true), sub, opt("start", nil), opt("end", nil)),
		"count": onString(func(_ *run, s string, a []Value) (Value, error) {
			p, err := text(a[0])
			return int64(strings.Count(s, p)), err
		}, sub),
		"replace": onString(func(r *run, s string, a []Value) (Value, error) {
			from, err1 := text(a[0])
			to, err2 := text(a[1])
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			return replace(r, s, from, to, a[2])
		}, req("old"), req("new"), opt("count", nil)),
		"join": onString(func(r *run, s string, a []Value) (Value, error) {
			items, err := r.iterate(a[0])
			if err != nil {
				return nil, err
			}
			for _, item := range items {
				if _, err := text(item); err != nil {
					return nil, err
				}
			}
			return filterJoin(r, items, []Value{s, nil})
		}, req("iterable")),
		"format":    {raw: formatMethod},
		"ljust":     onString(padder(atLeft), req("width"), opt("fillchar", " ")),
		"rjust":     onString(padder(atRight), req("width"), opt("fillchar", " ")),
		"center":    onString(padder(centred), req("width"), opt("fillchar", " ")),
		"zfill":     onString(zfill, req("width")),
		"isdigit":   all(unicode.IsDigit),
		"isdecimal": all(unicode.IsDigit),
		"isnumeric": all(unicode.IsNumber),
		"isalpha":   all(unicode.IsLetter),
		"isalnum":   all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isspace":   all(isSpace),
		"islower":   caseTest(unicode.IsUpper, unicode.IsLower),
		"isupper":   caseTest(unicode.IsLower, unicode.IsUpper),
	}
}

// upper is str.upper; ß is the one common letter that becomes two.
func upper(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS") }

func all(is func(rune) bool) *builtin {
	return mapped(func(s string) Value {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
	})
}

// text requires a string argument.
func text(v Value) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("expected a string, found %q", typeName(v))
	}
	return s, nil
}

func stringList(parts []string) *List {
	l := &List{items: make([]Value, len(parts))}
	for i, p := range parts {
		l.items[i] = p
	}
	return l
}

func stripper(left, right bool) func(*run, string, []Value) (Value, error) {
	return func(_ *run, s string, a []Value) (Value, error) {
		cut := isSpace
		if a[0] != nil {
			set, err := text(a[0])
			if err != nil {
				return nil, err
			}
			chars := make(map[rune]bool)
			for _, c := range set {
				chars[c] = true
			}
			cut = func(c rune) bool { return chars[c] }
		}
		if left {
			s = strings.TrimLeftFunc(s, cut)
		}
		if right {
			s = strings.TrimRightFunc(s, cut)
		}
		return s, nil
	}
}

func splitter(fromRight bool) func(*run, string, []Value) (Value, error) {
	return func(r *run, s string, a []Value) (Value, error) {
		limit, ok := asInt(a[1])
		if !ok {
			return nil, errors.New("maxsplit must be an integer")
		}
		if limit < 0 {
			limit = int64(len(s)) + 1
		}
		next := func(s string) (before, after string, found bool) {
			i := strings.LastIndexFunc(s, isSpace)
			if !fromRight {
				i = strings.IndexFunc(s, isSpace)
			}
			if i < 0 {
				return s, "", false
			}
			_, n := utf8.DecodeRuneInString(s[i:])
			return s[:i], s[i+n:], true
		}
		trim := strings.TrimLeftFunc
		if fromRight {
			trim = strings.TrimRightFunc
		}
		if a[0] != nil {
			sep, err := text(a[0])
			if err != nil {
				return nil, err
			}
			if sep == "" {
				return nil, errors.New("empty separator")
			}
			find := strings.Index
			if fromRight {
				find = strings.LastIndex
			}
			next = func(s string) (string, string, bool) {
				i := find(s, sep)
				if i < 0 {
					return s, "", false
				}
				return s[:i], s[i+len(sep):], true
			}
			trim = func(s string, _ func(rune) bool) string { return s }
		}
		return splitText(r, s, limit, fromRight, next, trim)
	}
}

// splitText cuts s at most limit times where next says; trim trims the rest.
func splitText(r *run, s string, limit int64, fromRight bool, next func(string) (string, string, bool),
	trim func(string, func(rune) bool) string) (Value, error) {
	var parts []string
	s = trim(s, isSpace)
	blank := trim(" ", isSpace) == "" // splitting at white space: an empty text has no parts
	for s != "" || !blank {
		before, after, found := next(s)
		if !found || limit == 0 {
			parts = append(parts, s)
			break
		}
		limit--
		if fromRight {
			parts, s = append(parts, after), before
		} else {
			parts, s = append(parts, before), after
		}
		if s = trim(s, isSpace); len(parts) > maxItems {
			return nil, fmt.Errorf("more than %d parts", maxItems)
		}
		if err := r.spend(16); err != nil {
			return nil, err
		}
	}
	if fromRight {
		for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
			parts[i], parts[j] = parts[j], parts[i]
		}
	}
	return stringList(parts), nil
}

// splitLines is str.splitlines.
func splitLines(s string, keepEnds bool) []string {
	var lines []string
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(lines, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		if keepEnds {
			lines = append(lines, s[:i+n])
		} else {
			lines = append(lines, s[:i])
		}
		s = s[i+n:]
	}
	return lines
}

func partition(find func(s, sep string) int, last bool) func(*run, string, []Value) (Value, error) {
	return func(_ *run, s string, a []Value) (Value, error) {
		sep, err := text(a[0])
		if err == nil && sep == "" {
			err = errors.New("empty separator")
		}
		if err != nil {
			return nil, err
		}
		switch i := find(s, sep); {
		case i >= 0:
			return tuple(s[:i], sep, s[i+len(sep):]), nil
		case last:
			return tuple("", "", s), nil
		}
		return tuple(s, "", ""), nil
	}
}

// window is s[start:end] with bounds that may be None; at is where it begins in characters.
func window(s string, a []Value) (part string, at int64, err error) {
	if a[0] == nil && a[1] == nil {
		return s, 0, nil
	}
	var bounds [2]*int64
	for i, v := range a[:2] {
		if v == nil {
			continue
		}
		n, ok := asInt(v)
		if !ok {
			return "", 0, errors.New("start and end must be integers or None")
		}
		bounds[i] = &n
	}
	lo, hi, _ := sliceBounds(bounds[0], bounds[1], nil, int64(runeLen(s)))
	return sliceText(s, lo, hi, 1), lo, nil
}

func affix(has func(s, part string) bool) func(*run, string, []Value) (Value, error) {
	return func(_ *run, s string, a []Value) (Value, error) {
		s, _, err := window(s, a[1:])
		if err != nil {
			return nil, err
		}
		options := []Value{a[0]}
		if l, ok := a[0].(*List); ok && l.kind == kindTuple {
			options = l.items
		}
		for _, o := range options {
			part, err := text(o)
			if err != nil || has(s, part) {
				return err == nil, err
			}
		}
		return false, nil
	}
}

func finder(find func(s, sub string) int, must bool) func(*run, string, []Value) (Value, error) {
	return func(_ *run, s string, a []Value) (Value, error) {
		sub, err := text(a[0])
		if err != nil {
			return nil, err
		}
		s, at, err := window(s, a[1:])
		if err != nil {
			return nil, err
		}
		i := find(s, sub)
		if i < 0 {
			if must {
				return nil, errors.New("substring not found")
			}
			return int64(-1), nil
		}
		return at + int64(runeLen(s[:i])), nil
	}
}

// replace is s.replace(from, to, count).
func replace(r *run, s, from, to string, limit Value) (Value, error) {
	n := int64(-1)
	if limit != nil {
		var ok bool
		if n, ok = asInt(limit); !ok {
			return nil, errors.New("count must be an integer")
		}
	}
	times := int64(strings.Count(s, from))
	if n >= 0 {
		times = min(times, n)
	}
	if err := r.spendTimes(len(to), times); err != nil {
		return nil, err
	}
	return strings.Replace(s, from, to, int(times)), nil
}

func padder(left func(missing, width int) int) func(*run, string, []Value) (Value, error) {
	return func(r *run, s string, a []Value) (Value, error) {
		fill, err := text(a[1])
		if err == nil && runeLen(fill) != 1 {
			err = errors.New("the fill character must be one character")
		}
		if err != nil {
			return nil, err
		}
		return pad(r, s, a[0], fill, left)
	}
}

// These say where a padded text is placed: how many of the missing characters precede it.
func atLeft(int, int) int        { return 0 }
func atRight(missing, _ int) int { return missing }
func centred(missing, w int) int { return missing/2 + missing&w&1 }

// pad adds fill up to width characters; left returns how many of the missing ones go on the left.
func pad(r *run, s string, width Value, fill string, left func(missing, width int) int) (Value, error) {
	w, ok := asInt(width)
	if !ok {
		return nil, errors.New("width must be an integer")
	}
	if err := r.spendTimes(len(fill), max(w, 0)); err != nil {
		return nil, err
	}
	n := int(w) - runeLen(s)
	if n <= 0 {
		return s, nil
	}
	l := left(n, int(w))
	return strings.Repeat(fill, l) + s + strings.Repeat(fill, n-l), nil
}

func zfill(r *run, s string, a []Value) (Value, error) {
	sign, digits := "", s
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		sign, digits = s[:1], s[1:]
	}
	w, ok := asInt(a[0])
	if !ok {
		return nil, errors.New("width must be an integer")
	}
	padded, err := pad(r, digits, w-int64(len(sign)), "0", atRight)
	if err != nil {
		return nil, err
	}
	return sign + padded.(string), nil
}
