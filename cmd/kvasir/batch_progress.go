package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// batchProgress shows how far a batch is: as a bar on a terminal, else as a line for each tenth.
type batchProgress struct {
	w             io.Writer // nil shows nothing
	begin         time.Time
	total, before int // requests, and those that had answers at the beginning
	done, failed  int // since then
	tokens        int
	bars          *mpb.Progress // nil if w is no terminal
	bar           *mpb.Bar
}

func newBatchProgress(quiet bool, total, before int) *batchProgress {
	p := &batchProgress{begin: time.Now(), total: total, before: before}
	if quiet {
		return p
	}
	p.w = os.Stderr
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(os.Stderr), mpb.WithRefreshRate(250*time.Millisecond))
	p.bar = p.bars.AddBar(int64(total),
		mpb.PrependDecorators(decor.CountersNoUnit("%d / %d requests")),
		mpb.AppendDecorators(decor.Any(func(st decor.Statistics) string { return p.left(int(st.Current), time.Since(p.begin)) })))
	p.bar.SetCurrent(int64(before))
	return p
}

// left words the rate so far and the time that the rest takes at it.
func (p *batchProgress) left(done int, took time.Duration) string {
	fresh := done - p.before
	if fresh <= 0 || took <= 0 {
		return ""
	}
	each := took / time.Duration(fresh)
	return fmt.Sprintf("%.1f/s, %v left", float64(fresh)/took.Seconds(), (each * time.Duration(p.total-done)).Round(time.Second))
}

// add counts a request that was answered.
func (p *batchProgress) add(tokens int, ok bool) {
	p.done++
	p.tokens += tokens
	if !ok {
		p.failed++
	}
	all := p.before + p.done
	switch {
	case p.bar != nil:
		p.bar.Increment()
	case p.w != nil && all*10/p.total > (all-1)*10/p.total && all < p.total:
		fmt.Fprintf(p.w, "%d of %d requests, %s\n", all, p.total, p.left(all, time.Since(p.begin)))
	}
}

// end says what was done.
func (p *batchProgress) end(err error) {
	if p.bar != nil {
		if err != nil {
			p.bar.Abort(false)
		}
		p.bars.Wait()
	}
	if p.w == nil {
		return
	}
	took := time.Since(p.begin)
	fmt.Fprintf(p.w, "%d of %d requests have answers, %d of them now, with %d errors, in %v: %.1f tokens/s\n",
		p.before+p.done, p.total, p.done, p.failed, took.Round(time.Millisecond), float64(p.tokens)/max(took.Seconds(), 1e-3))
	if err != nil {
		fmt.Fprintln(p.w, "The same command goes on where it stopped.")
	}
}
