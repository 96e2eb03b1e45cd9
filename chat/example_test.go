package chat_test

import (
	"context"
	"fmt"

	"github.com/kvasir-llm/kvasir/chat"
)

// A template turns a conversation into the prompt that its model was trained on.
func Example() {
	t, err := chat.Parse("example", "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}\n{% endfor %}"+
		"{% if add_generation_prompt %}<assistant>{% endif %}")
	if err != nil {
		panic(err)
	}
	prompt, err := t.RenderChat(context.Background(), chat.Input{AddGenerationPrompt: true, Messages: []chat.Message{
		{Role: "system", Content: "Be brief."}, {Role: "user", Content: "  Hello!"},
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(prompt)
	_, err = chat.Parse("broken", "{% for m in %}")
	fmt.Println(err)
	// Output:
	// <system>Be brief.
	// <user>Hello!
	// <assistant>
	// chat: template broken line 1: expected an expression, found "%}"
}
