package cache

import (
	"container/list"
	"math"
	"slices"
	"sync"
	"time"
)

// Index finds kept answers by what their questions mean: by vectors, in groups of questions that are equal but for
// their wording. It forgets what was used least recently. Its methods may be called from several goroutines.
type Index struct {
	mu     sync.Mutex
	most   int // vectors
	order  *list.List
	groups map[string][]*list.Element
}

// mostInGroup bounds the vectors that a question is compared with.
const mostInGroup = 1024

// vector is a question. It never changes.
type vector struct {
	direction
	name  string    // of the answer
	ends  time.Time // the answer
	group string
}

// direction is a vector of length 1.
type direction struct {
	at   []float32
	rest []float32 // the lengths of what follows each part of at, a little more rather than less
}

// part is how many numbers of two vectors are multiplied before the rest may be left out.
const part = 64

// NewIndex makes one of so many vectors at most.
func NewIndex(most int) *Index {
	return &Index{most: most, order: list.New(), groups: map[string][]*list.Element{}}
}

// unit returns the direction of a vector, an empty one if there is none.
func unit(v []float32) (d direction) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	if !(length > 0) || math.IsInf(length, 0) {
		return d
	}
	d.at = make([]float32, len(v))
	for i, x := range v {
		d.at[i] = float32(float64(x) / length)
	}
	d.rest = make([]float32, (len(v)+part-1)/part)
	sum = 0
	for i := len(v) - 1; i >= part; i-- {
		if sum += float64(d.at[i]) * float64(d.at[i]); i%part == 0 {
			d.rest[i/part-1] = float32(math.Sqrt(sum) * (1 + 1e-5))
		}
	}
	return d
}

// cosine returns the cosine of two vectors, or less than least as soon as it cannot be that much: the product of what
// is left of both is at most that of its lengths.
func (d direction) cosine(o direction, least float32) float32 {
	sum := float32(0)
	for i, rest := range d.rest {
		end := min((i+1)*part, len(d.at))
		sum += product(d.at[i*part:end], o.at[i*part:end])
		if most := sum + rest*o.rest[i] + 1e-5; most < least {
			return most
		}
	}
	return sum
}

// Add says that the answer of a name is one to a question, for a time.
func (x *Index) Add(group string, question []float32, name string, keep time.Duration) {
	d := unit(question)
	if d.at == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(group, name)
	if list := x.groups[group]; len(list) == mostInGroup {
		x.remove(list[0])
	}
	for x.order.Len() >= x.most && x.order.Len() > 0 {
		x.remove(x.order.Back())
	}
	if x.most > 0 {
		x.groups[group] = append(x.groups[group], x.order.PushFront(&vector{d, name, time.Now().Add(keep), group}))
	}
}

// Drop forgets an answer.
func (x *Index) Drop(group, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(group, name)
}

func (x *Index) drop(group, name string) {
	for _, e := range x.groups[group] {
		if e.Value.(*vector).name == name {
			x.remove(e)
			return
		}
	}
}

// remove takes out a vector. Slices of groups are never changed in place, as Find reads them without a lock.
func (x *Index) remove(e *list.Element) {
	v := x.order.Remove(e).(*vector)
	rest := slices.DeleteFunc(slices.Clone(x.groups[v.group]), func(o *list.Element) bool { return o == e })
	if x.groups[v.group] = rest; len(rest) == 0 {
		delete(x.groups, v.group)
	}
}

// Find returns the name of the answer whose question is most like another one of its group, and the cosine of the two.
// The name is "" if there is none with a cosine of at least so much.
func (x *Index) Find(group string, question []float32, least float64) (name string, cosine float64) {
	d := unit(question)
	x.mu.Lock()
	list := x.groups[group]
	list = list[:len(list):len(list)]
	x.mu.Unlock()
	var best *vector
	var place int
	now := time.Now()
	for i, e := range list {
		v := e.Value.(*vector)
		if len(v.at) != len(d.at) || !now.Before(v.ends) {
			continue
		}
		if c := float64(v.cosine(d, float32(least))); c >= least && (best == nil || c > cosine) {
			best, place, cosine, least = v, i, c, c
		}
	}
	if best == nil {
		return "", 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.order.MoveToFront(list[place]) // which does nothing if it was removed
	return best.name, cosine
}

// product is the inner product of two vectors of the same length. Four sums keep a processor busier than one.
func product(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}
