package chat

import "strings"

// Marks of OpenAI's harmony, the format of GPT-OSS: an answer is a list of messages, each with a header that names its
// channel and, of a call, the tool. See https://github.com/openai/harmony, docs/format.md.
const (
	harmonyStart   = "<|start|>"
	harmonyChannel = "<|channel|>"
	harmonyMessage = "<|message|>"
)

var harmonyMarks = []string{harmonyStart, harmonyChannel, harmonyMessage, "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"}

// header is the state in a message's header.
func (p *Parser) header() bool {
	if !p.pending {
		p.open()
		p.raw.Reset()
		p.object = jsonObject{}
	}
	mark, ok := p.word(&p.object.text, harmonyMessage)
	if p.heading = ok && mark == ""; p.heading {
		return false
	}
	if !ok {
		return p.fail()
	}
	head := p.object.text.String()
	p.raw.Reset()
	p.pending, p.object.given = false, false
	to, channel := harmonyWord(head, "to="), harmonyWord(head, harmonyChannel)
	name, function := strings.CutPrefix(to, "functions.")
	p.mark = harmonyMessage
	switch {
	case function && p.tools != nil && p.begin("", name):
		p.value, p.state = jsonScan{}, p.channelCall
	case channel == "analysis" || to != "":
		p.reasoned, p.inside, p.state = true, true, p.channelThought
	default:
		p.state = p.channelText
	}
	return true
}

// harmonyWord returns the word in a header that follows what.
func harmonyWord(head, what string) string {
	_, rest, _ := strings.Cut(head, what)
	if i := strings.IndexAny(rest, " \t\r\n<"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// channelEnds goes on after a message, if it has ended.
func (p *Parser) channelEnds(mark string) bool {
	switch mark {
	case "":
		return false
	case harmonyChannel:
		p.in = mark + p.in
		fallthrough
	case harmonyStart:
		p.state = p.header
	default:
		p.state = p.channelText
	}
	p.inside = false
	return true
}

// channelText is the state in a message for the user, and after any message.
func (p *Parser) channelText() bool {
	text, mark := p.until(harmonyMarks...)
	p.say(text)
	return p.channelEnds(mark)
}

// channelThought is the state in a message of the model to itself.
func (p *Parser) channelThought() bool {
	text, mark := p.until(harmonyMarks...)
	p.emit(Reasoning, text)
	return p.channelEnds(mark)
}

// channelCall is the state in a call's arguments, where a string may spell marks.
func (p *Parser) channelCall() bool {
	n, over := p.value.end(p.in)
	p.channelArgue(p.take(n))
	if over {
		p.state = p.channelCalled
	}
	return over
}

// channelCalled is the state between a call's arguments and the mark that ends its message.
func (p *Parser) channelCalled() bool {
	text, mark := p.until(harmonyMarks...)
	p.channelArgue(text)
	if mark != "" {
		p.channelCallEnds()
	}
	return p.channelEnds(mark)
}

func (p *Parser) channelArgue(text string) {
	p.object.given = p.object.given || text != ""
	p.argue(text)
}

// channelCallEnds ends a call; the mark that does is a stop token, which is not shown.
func (p *Parser) channelCallEnds() {
	if !p.object.given {
		p.argue("{}")
	}
	p.finish()
}

// What begins a message of the model to itself, what it tells the user before calls, and its answer. harmonyThoughtEnd
// ends the first two.
const (
	harmonyThought    = "<|channel|>analysis<|message|>"
	harmonyPreamble   = "<|channel|>commentary<|message|>"
	harmonyFinal      = "<|channel|>final<|message|>"
	harmonyThoughtEnd = "<|end|><|start|>assistant"
)
