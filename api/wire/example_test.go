package wire_test

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Decode reads an object member by member; whatever the function does not know, it refuses by name.
func ExampleDecode() {
	read := func(body string) {
		var words int
		err := wire.Decode([]byte(body), func(c *wire.Cursor, key string) (err error) {
			switch key {
			case "words":
				words, err = c.IntIn(1, 99)
			default:
				err = c.Unsupported()
			}
			return err
		})
		fmt.Println(words, err)
	}
	read(`{"words": 7}`)
	read(`{"words": "seven"}`)
	read(`{"wrods": 7}`)
	// Output:
	// 7 <nil>
	// 0 words: expected an integer, found a string
	// 0 wrods: this parameter is not supported
}
