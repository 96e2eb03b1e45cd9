package text

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/sampling"
)

// longPattern is a regular expression whose grammar takes some MiB.
func longPattern(seed uint64) string {
	r, text := rand.New(rand.NewPCG(seed, 1)), make([]byte, 200_000)
	for i := range text {
		text[i] = byte('a' + r.IntN(26))
	}
	return string(text)
}

// TestGuideMemory holds that compiled grammars take no more than guideBytes, be they kept for requests to come or held
// by requests, that one too many is refused, and that what ended requests held is free.
func TestGuideMemory(t *testing.T) {
	m := openMini(t, Options{})
	ask := func(ctx context.Context, seed uint64) error {
		r := asking("What?")
		r.Sampling, r.MaxTokens = sampling.Defaults(), 20
		r.Answer.Form = &Form{Spec: grammar.Spec{Regex: longPattern(seed)}, Field: "guided_regex"}
		_, err := m.Prepare(ctx, r)
		return err
	}
	gone, leave := context.WithCancel(t.Context())
	for seed := range uint64(20) { // nobody holds them any more
		ctx, end := context.WithCancel(t.Context())
		if err := ask(ctx, seed); err != nil {
			t.Fatal(seed, err)
		}
		end()
	}
	refused := 0
	for seed := uint64(100); seed < 120; seed++ {
		switch err := ask(gone, seed); {
		case errors.Is(err, ErrGuides):
			refused++
		case err != nil:
			t.Fatal(seed, err)
		}
		m.guides.mu.Lock()
		if n := m.guides.bytes; n > guideBytes+guideBytes/2 {
			t.Errorf("%d MiB of grammars are kept or held", n>>20)
		}
		m.guides.mu.Unlock()
	}
	if refused < 2 || refused > 18 {
		t.Errorf("%d of 20 requests are refused", refused)
	}
	leave()
	for {
		if err := ask(t.Context(), 200); err == nil {
			break
		} else if !errors.Is(err, ErrGuides) {
			t.Fatal(err)
		}
	}
	m.guides.mu.Lock()
	defer m.guides.mu.Unlock()
	var sum int64
	for _, c := range m.guides.recent {
		sum += c.bytes
	}
	if m.guides.bytes != sum {
		t.Errorf("%d MiB are counted; kept are %d", m.guides.bytes>>20, sum>>20)
	}
}

// TestGuidesAreShared holds that one client's grammars, kept or held, leave room for those of another one.
func TestGuidesAreShared(t *testing.T) {
	m := openMini(t, Options{})
	ask := func(ctx context.Context, who, pattern string) error {
		r := asking("What?")
		r.Sampling, r.Salt = sampling.Defaults(), who
		r.Answer.Form = &Form{Spec: grammar.Spec{Regex: pattern}, Field: "guided_regex"}
		_, err := m.Prepare(guard.As(ctx, who), r)
		return err
	}
	left := func(who string) (n int) {
		m.guides.mu.Lock()
		defer m.guides.mu.Unlock()
		for _, c := range m.guides.recent {
			if c.who == who {
				n++
			}
		}
		return n
	}
	ended := func(who, pattern string) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		if err := ask(ctx, who, pattern); err != nil {
			t.Fatal(err)
		}
	}
	ended("ben", longPattern(1000))
	ended("ben", "yes|no")
	for i := range 2 * mostGuides {
		ended("ann", fmt.Sprint("yes|no|", i))
	}
	for seed := range uint64(20) {
		ended("ann", longPattern(seed))
	}
	if ann, ben := left("ann"), left("ben"); ann == 0 || ben != 2 {
		t.Errorf("%d grammars of one and %d of the other are kept; want some and 2", ann, ben)
	}
	var err error
	for seed := uint64(100); err == nil; seed++ {
		err = ask(t.Context(), "ann", longPattern(seed))
	}
	if !errors.Is(err, ErrGuides) {
		t.Fatal(err)
	}
	for _, pattern := range []string{longPattern(1000), "yes|no", "maybe"} {
		if err := ask(t.Context(), "ben", pattern); err != nil {
			t.Error(err)
		}
	}
}
