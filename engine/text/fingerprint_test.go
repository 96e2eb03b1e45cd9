package text

import (
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/model"
)

// each calls f for every number, text and bool in a value. f calls set after it has changed one.
func each(v reflect.Value, name string, set func(), f func(name string, v reflect.Value, set func())) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), v.Type().Field(i).Name, set, f)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			each(v.Index(i), name, set, f)
		}
	case reflect.Interface:
		if !v.IsNil() {
			held := reflect.New(v.Elem().Type()).Elem() // what an interface holds cannot be set in place
			held.Set(v.Elem())
			each(held, name, func() { v.Set(held) }, f)
		}
	default:
		f(name, v, set)
	}
}

// grow changes a value.
func grow(t *testing.T, v reflect.Value) {
	t.Helper()
	switch {
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	case v.CanFloat():
		v.SetFloat(v.Float() + 1)
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	default:
		t.Fatalf("a field of kind %v", v.Kind())
	}
}

// mixers are those that a Spec may have, one a layer.
func mixers() *model.Spec {
	return &model.Spec{Layers: []model.Layer{{Mixer: model.GQA{}}, {Mixer: model.Latent{}}, {Mixer: model.Delta{}}}}
}

// TestDescription holds the text that stored blocks and their names depend on, with every field set: if a line changes,
// blocks stored before are of no use. A new field adds lines. contents grows only if the old text comes to stand for
// other keys and values.
func TestDescription(t *testing.T) {
	s := mixers()
	each(reflect.ValueOf(s).Elem(), "", func() {}, func(_ string, v reflect.Value, set func()) {
		grow(t, v)
		set()
	})
	const file = "testdata/description.txt"
	want, err := os.ReadFile(file)
	if got := describe(s, true); err != nil || got != string(want) {
		t.Errorf("%s: %v; the description is now\n%s", file, err, got)
	}
	if got := describe(&model.Spec{}, false); got != "contents 1\nwide false\n" {
		t.Errorf("zero is described by %q", got)
	}
}

// TestDescriptionIsComplete changes one field after another: the description changes too, unless no block depends on
// it.
func TestDescriptionIsComplete(t *testing.T) {
	s := mixers()
	each(reflect.ValueOf(s).Elem(), "", func() {}, func(string, reflect.Value, func()) {}) // makes the slices
	before, fields := describe(s, false), 0
	each(reflect.ValueOf(s).Elem(), "", func() {}, func(name string, v reflect.Value, set func()) {
		fields++
		old := reflect.ValueOf(v.Interface())
		grow(t, v)
		set()
		if changed := describe(s, false) != before; changed == slices.Contains(afterLayers, name) {
			t.Errorf("%s: the description changes: %v", name, changed)
		}
		v.Set(old)
		set()
	})
	if after := describe(s, false); after != before || fields < 80 {
		t.Errorf("%d fields; at the end the description is\n%s", fields, after)
	}
}
