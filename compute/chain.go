package compute

// Chain is the order in which a distribution is cut down and drawn from, where it is not the one of Choosing, or
// where a stage is on that Choosing has no field for. Stages see what the ones before them left.
type Chain struct {
	Stages []Stage // each at most once; a stage that is not listed does nothing
	// TypicalP keeps the tokens whose surprise is nearest to the entropy, as few as have this share of the probability
	// (locally typical sampling, arXiv:2202.00666); 1 keeps all.
	TypicalP float32
	// TopNSigma keeps the tokens whose logit is at most that many standard deviations of all logits left below the
	// greatest (arXiv:2411.07641); 0 keeps all.
	TopNSigma float32
	// With XTCProbability, all of the tokens with a share of at least XTCThreshold go but the least likely of them, and
	// so at least one stays ("exclude top choices").
	XTCProbability, XTCThreshold float32
	// The temperature is between Temperature ∓ DynamicRange, the higher the nearer the entropy is to that of an even
	// distribution: at the share e of it, e^DynamicExponent of the way (arXiv:2309.02772, as in llama.cpp); range 0 is
	// off.
	DynamicRange, DynamicExponent float32
	Mirostat                      *Mirostat // of StageMirostat
}

// Stage is a step of a Chain.
type Stage uint8

// The stages.
const (
	StageTemperature Stage = iota
	StageTopNSigma
	StageMinP
	StageTopK
	StageTypical
	StageTopP
	StageXTC
	StageMirostat
)

// Mirostat keeps the surprise of an output's tokens near Target: tokens that would surprise more than a limit go, and
// the limit moves by Rate times what was missed (Mirostat 2.0, arXiv:2007.14966, algorithm 2).
type Mirostat struct {
	Target float32 // bits
	Rate   float32
	// Limits are those that the tokens so far were chosen by, by their index in the output, and the next one. The device
	// keeps them here, so that a token that is chosen again is chosen alike.
	Limits []float32
}

// DRY lowers the logits of tokens that would continue a repetition of what the sequence holds ("don't repeat
// yourself", as in llama.cpp): by Multiplier · Base^(n - Allowed), where n is the number of tokens repeated so far, if
// it is at least Allowed.
type DRY struct {
	Multiplier, Base float32
	Allowed          int
	LastN            int // how many of the latest tokens count; 0 is all
	// Breakers are runs of tokens that a repetition does not reach across, in ascending order.
	Breakers [][]int32
}
