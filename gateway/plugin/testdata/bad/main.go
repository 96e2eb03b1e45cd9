// This plug-in does what a test asks it to do wrong.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

var sink [][]byte

func main() {
	var call struct{ Model string }
	json.NewDecoder(os.Stdin).Decode(&call)
	switch call.Model {
	case "loops":
		for i := 0; ; i++ {
			if i < 0 {
				fmt.Println(i)
			}
		}
	case "traps":
		var nothing *int
		*nothing = 7
	case "eats":
		for {
			sink = append(sink, make([]byte, 1<<20))
		}
	case "talks":
		fmt.Println(strings.Repeat("x", 1<<20))
	case "lies":
		fmt.Println(`{"bodi": 1}`)
	case "exits":
		fmt.Fprintln(os.Stderr, "no more")
		os.Exit(3)
	case "reads":
		if _, err := os.ReadFile("/etc/passwd"); err == nil {
			fmt.Println(`{"refuse": "it can read files"}`)
		}
	}
}
