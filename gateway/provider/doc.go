// Package provider lets clients of OpenAI's API talk to providers with an API of their own: Anthropic, Gemini, Azure
// and Bedrock. A Transport translates a chat request on its way to a provider, and the answer or the stream on its way
// back. What a provider has no words for is refused by name. The package knows nothing of models, keys or routes. Read
// Transport first.
package provider
