// This plug-in refuses requests that name the project Bifrost, and puts the house's rules before all others.
//
//	GOOS=wasip1 GOARCH=wasm go build -o policy.wasm .
package main

import (
	"encoding/json"
	"os"
	"strings"
)

func main() {
	var call struct {
		Hook string
		Body map[string]json.RawMessage
	}
	if err := json.NewDecoder(os.Stdin).Decode(&call); err != nil {
		panic(err)
	}
	if strings.Contains(strings.ToLower(string(call.Body["messages"])), "bifrost") {
		json.NewEncoder(os.Stdout).Encode(map[string]string{"refuse": "this project is not to be talked about"})
		return
	}
	var messages []any
	if err := json.Unmarshal(call.Body["messages"], &messages); err != nil {
		return // not a chat
	}
	rules := map[string]string{"role": "system", "content": "Answer in English."}
	call.Body["messages"], _ = json.Marshal(append([]any{rules}, messages...))
	json.NewEncoder(os.Stdout).Encode(map[string]any{"body": call.Body})
}
