package model

import (
	"fmt"
	"math"
	"reflect"
	"strings"
)

// Differ names the first value in which two Specs differ, or returns "" if they compute the same. It ignores how a
// rope pairs values, which follows from the order of the weights' rows, and Rope.Limit, which no GGUF can express.
func Differ(a, b *Spec) string {
	x, y := *a, *b
	x.Family, y.Family = "", ""
	for _, s := range []*Spec{&x, &y} {
		if s.Quantization.Method == "mxfp4" { // the tensors' type says the same
			s.Quantization = Quantization{}
		}
	}
	x.PositionsFrom, y.PositionsFrom = 0, 0 // rows of a table that nothing reads
	return differ("", reflect.ValueOf(x), reflect.ValueOf(y))
}

func differ(name string, a, b reflect.Value) string {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			field := a.Type().Field(i).Name
			if d := differ(strings.TrimPrefix(name+"."+field, "."), a.Field(i), b.Field(i)); d != "" && field != "Interleaved" && field != "Limit" {
				return d
			}
		}
		return ""
	case reflect.Slice:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s has %d entries and then %d", name, a.Len(), b.Len())
		}
		for i := range a.Len() {
			if d := differ(fmt.Sprintf("%s[%d]", name, i), a.Index(i), b.Index(i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Interface:
		if !a.IsNil() && !b.IsNil() && a.Elem().Type() == b.Elem().Type() {
			return differ(name, a.Elem(), b.Elem())
		}
	case reflect.Pointer:
		if !a.IsNil() && !b.IsNil() {
			return differ(name, a.Elem(), b.Elem())
		}
	case reflect.Float32, reflect.Float64:
		if x, y := a.Float(), b.Float(); math.Abs(x-y) <= 1e-5*math.Abs(x) {
			return ""
		}
	}
	if x, y := a.Interface(), b.Interface(); x != y {
		return fmt.Sprintf("%s is %v and then %v", name, x, y)
	}
	return ""
}
