package text

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/draft"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

// draftModel is a smaller model that guesses tokens ahead, on the device of the one that is served.
type draftModel struct {
	again  func() (*weights.Checkpoint, error)
	loaded *model.Model  // nil: its device is closed
	runner *model.Runner // nil: it is closed
	guess  *draft.Model
	cfg    draft.Config
}

const (
	draftContext = 32768 // tokens; a longer sequence is not guessed at by a model
	draftShare   = 512   // tokens of its KV cache for each sequence that may run, but room for one of the context
)

// loadDraft loads the model that guesses, nil if there is none.
func (m *Model) loadDraft(dev compute.Device, o *Options) error {
	if o.Draft == nil {
		return nil
	}
	t, err := OpenTokenizer(o.Draft)
	if err != nil {
		return fmt.Errorf("text: draft-model: %w", err)
	}
	if err := m.sameTokens(t); err != nil {
		return err
	}
	d := &draftModel{again: o.Draft.Reopen, guess: draft.New()}
	if err := d.load(o.Draft, dev, o); err != nil {
		return err
	}
	if why := draftless(d.loaded.Spec); why != "" {
		return fmt.Errorf("text: draft-model: it %s", why)
	}
	m.draft = d
	m.Bytes += d.loaded.Bytes
	return nil
}

// sameTokens refuses the tokenizer of a draft model that is not the model's own.
func (m *Model) sameTokens(t *tokenizer.Tokenizer) error {
	if a, b := m.Tokenizer.VocabSize(), t.VocabSize(); a != b {
		return fmt.Errorf("text: draft-model: its tokenizer has %d tokens; that of %s has %d, and they must be the same", b, m.Name, a)
	}
	for id := range int32(t.VocabSize()) {
		if a, b := m.Tokenizer.Bytes(id), t.Bytes(id); !bytes.Equal(a, b) || m.Tokenizer.IsSpecial(id) != t.IsSpecial(id) {
			return fmt.Errorf("text: draft-model: its tokenizer is another: token %d is %q; that of %s is %q", id, b, m.Name, a)
		}
	}
	return nil
}

// load loads the weights.
func (d *draftModel) load(ckpt *weights.Checkpoint, dev compute.Device, o *Options) (err error) {
	if d.loaded, err = loader.Model(ckpt, dev, nil); err != nil {
		return fmt.Errorf("text: draft-model: %w", err)
	}
	d.loaded.KVType = o.KVType
	return nil
}

// reload loads the weights again.
func (d *draftModel) reload(dev compute.Device, o *Options) error {
	if d == nil {
		return nil
	}
	ckpt, err := d.again()
	if err != nil {
		return err
	}
	return errors.Join(d.load(ckpt, dev, o), ckpt.Close())
}

// open makes the Runner, with a KV cache of its own.
func (d *draftModel) open(o *Options) (err error) {
	if d == nil {
		return nil
	}
	spec := d.loaded.Spec
	context := min(spec.Context, cmp.Or(o.Context, spec.Context), draftContext)
	tokens := max(context, o.MaxSeqs*draftShare)
	groups := max(1, len(groups(spec)))
	d.cfg = draft.Config{
		Context: context, Blocks: groups * ((tokens + o.BlockTokens - 1) / o.BlockTokens), BlockTokens: o.BlockTokens, Groups: groups,
		Slots: o.MaxSeqs, Logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
	}
	if d.runner, err = d.loaded.NewRunner(draft.Rows(o.MaxSeqs), d.cfg.Blocks, o.BlockTokens, o.MaxSeqs); err != nil {
		return fmt.Errorf("text: draft-model: %w", err)
	}
	d.guess.Use(d.runner, d.cfg)
	return nil
}

// close frees the Runner, and drop also the weights.
func (d *draftModel) close() (err error) {
	if d == nil || d.runner == nil {
		return nil
	}
	err = d.runner.Close()
	d.runner = nil
	return err
}

func (d *draftModel) drop() {
	if d != nil {
		d.loaded = nil
	}
}

// bytes returns what it takes beside its weights: the KV cache, and what a step works with.
func (d *draftModel) bytes() int64 {
	if d == nil {
		return 0
	}
	return d.runner.Cache().Bytes() + d.loaded.Workspace(draft.Rows(d.cfg.Slots), d.cfg.Slots)
}
