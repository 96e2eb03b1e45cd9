package fleet

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"

	"github.com/kvasir-llm/kvasir/kv"
)

// cache is a prefix cache: which blocks of tokens an engine holds. Those that were used least recently go first, of one
// prompt the last ones before the first ones.
type cache struct {
	most    int // blocks
	tokens  int // of a block
	order   *list.List
	held    map[kv.Hash]*list.Element
	publish func([]kv.Event) // nil tells nobody
	lies    bool
}

func newCache(most, tokens int, publish func([]kv.Event)) *cache {
	return &cache{most: most, tokens: tokens, order: list.New(), held: map[kv.Hash]*list.Element{}, publish: publish}
}

// use returns how many leading tokens of a prompt are held, but for the last one, and holds all of its full blocks.
func (c *cache) use(prompt []int32) (cached int) {
	var told []kv.Event
	names := c.names(prompt)
	for cached < len(names) && c.held[names[cached]] != nil {
		cached++
	}
	c.touch(names[:cached]) // so that others make room
	for i := len(names) - 1; i >= cached; i-- {
		if c.order.Len() == c.most {
			oldest := c.order.Front()
			name := c.order.Remove(oldest).(kv.Hash)
			delete(c.held, name)
			told = append(told, kv.Event{Kind: kv.Removed, Name: name})
		}
		c.held[names[i]] = c.order.PushBack(names[i])
	}
	for i := cached; i < len(names); i++ {
		e := kv.Event{Kind: kv.Stored, Name: names[i], Tokens: prompt[i*c.tokens : (i+1)*c.tokens]}
		if i > 0 {
			e.Parent = names[i-1]
		}
		told = append(told, e)
	}
	c.touch(names[:cached])
	c.tell(told)
	return min(cached*c.tokens, len(prompt)-1)
}

// touch notes that blocks were used.
func (c *cache) touch(names []kv.Hash) {
	for i := len(names) - 1; i >= 0; i-- {
		c.order.MoveToBack(c.held[names[i]])
	}
}

// names are the names of a prompt's full blocks, as many as the cache can hold.
func (c *cache) names(prompt []int32) []kv.Hash {
	names := make([]kv.Hash, 0, min(len(prompt)/c.tokens, c.most))
	data := make([]byte, sha256.Size, sha256.Size+4*c.tokens)
	for len(names) < cap(names) {
		data = data[:sha256.Size]
		for _, t := range prompt[:c.tokens] {
			data = binary.LittleEndian.AppendUint32(data, uint32(t))
		}
		prompt = prompt[c.tokens:]
		name := kv.Hash(sha256.Sum256(data))
		names = append(names, name)
		copy(data, name[:])
	}
	return names
}

// clear forgets all.
func (c *cache) clear() {
	c.order.Init()
	clear(c.held)
	c.tell([]kv.Event{{Kind: kv.Cleared}})
}

// tell publishes what happened, or what did not if the cache lies: then blocks that are stored are removed, those that
// are removed are stored by nobody knows whom, and a cache that is cleared says nothing.
func (c *cache) tell(told []kv.Event) {
	if c.publish == nil || len(told) == 0 {
		return
	}
	if c.lies {
		for i := range told {
			switch e := &told[i]; e.Kind {
			case kv.Stored:
				*e = kv.Event{Kind: kv.Removed, Name: e.Name}
			case kv.Removed:
				*e = kv.Event{Kind: kv.Stored, Name: e.Name, Parent: sha256.Sum256(e.Name[:]), Tokens: make([]int32, c.tokens)}
			case kv.Cleared:
				return
			}
		}
	}
	c.publish(told)
}
