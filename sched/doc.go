// Package sched decides what runs in the next step: which sequences, how many of their tokens, in which blocks of the
// KV cache. It knows nothing of models, devices, goroutines or time, and of tokens only what it takes to name blocks:
// it is told facts (Add, Begin, Commit, Propose, Force, Cancel) and answers with plans (Next). Read Scheduler first,
// then Next.
//
// # Two plans
//
// Two plans may be outstanding, and both may be under way: a device computes them in the order in which they were made.
// The second is made before the tokens are known that the first chooses. It names them by position, and Work.From says
// which Work of the first plan chooses the token that a Work of the second computes.
//
// The caller keeps the block tables, one for each slot and group of layers. A plan carries only what has changed in
// them. A change that Commit makes (a block that is replaced by an equal one, or given back since it lies before a
// window) is told by the next plan that is made; one that was made before goes on with the block it had. That is safe,
// because
//
//   - what a plan reads is decided by its own edits and those of plans before it, and nothing takes effect out of
//     order;
//   - a block that is given back can only be handed out by a plan made later, so whatever is written to it, by a
//     step, a copy or a move, is written after all earlier plans have read it;
//   - what an earlier plan still writes to such a block, for a sequence that has ended or was preempted, comes before
//     what its new owner writes, and an owner reads only what it wrote itself, or what the block held when the owner
//     got it by name;
//   - a block gets its name at the Commit of the step that computed its last token, or from the plan that loads it,
//     and no plan outstanding then writes to it: a sequence writes only from its first token on that is not computed.
//
// The same holds for slots and recurrent states, which go to another sequence in a later plan only.
//
// # Plans of many tokens
//
// Propose adds tokens that may follow to a sequence's last one, and Commit takes as many of what they yield as are
// accepted. What was computed of the others is rolled back: the table gets shorter, and a token that was not accepted
// is never part of a name, so that nothing computed from it can be found. Its keys and values are overwritten before
// any token attends to that position. Force makes tokens known that must follow; they are computed like a prompt's.
//
// A proposal is a list, or a tree whose branches are alternatives (as in SpecInfer, arXiv:2305.09781). Each proposed
// token takes a row and a place in the table, in the order of the Draft. In a tree the tokens of different branches
// share positions, so a place is not a position: the caller lets a row attend to the tokens before the tree and to
// those of its own branch. Result.Path says which branch was accepted, and the next plan's Shifts bring its tokens
// together, to the places that their positions say, before anything else of the plan. So what a block holds is right
// whenever a later plan reads, copies or stores it, though it may have got its name before.
//
// # Blocks that arrive
//
// A tier of kv answers at once, or it does not, such as a disk. What it holds for a waiting sequence is asked for by
// Fetches, and the sequence waits until each of these blocks has Arrived or is Lost. Others pass it, like one that
// lacks blocks. It holds no blocks of the device meanwhile. The plan that admits it moves what has arrived to the
// device, so that carrying out a plan never waits for a slow tier.
//
// # The caller's duties
//
//  1. Tell the time with Tick before Next, if sequences have windows, deadlines or retention to go by; under a fair
//     policy also before Add and Commit.
//  2. Ask for a plan with Next only when the newest one is begun. nil means that nothing can run now; Wake says
//     whether waiting alone will change that.
//  3. Before Begin, tell with Lost which of a plan's moves to the device cannot be made, and look at the plan
//     afterwards: it has lost work, and gained Preempted. A move to a lower tier that was not made may be told at any
//     time.
//  4. Begin each plan, in order. From then on neither Cancel nor Commit changes it; before, both may take work out. A
//     plan that moves what one under way is yet to store in a lower tier must not begin before that is carried out.
//  5. Carry plans out one after the other, each in this order: Shifts, Moves from the device and between lower tiers,
//     Copies, Moves to the device, Edits, then the step. Nothing of a plan may overtake what an earlier one reads or
//     writes.
//  6. Of a Work, compute the tokens [Start, Start+N). Work.From says where the last one comes from if it is not
//     known. A Work that starts at 0 begins with an empty recurrent state. A token that a begun plan takes from
//     another is the one that Commit is told.
//  7. Cancel the sequences for which a step failed before its Commit, which makes what was computed findable.
//  8. Commit each plan, in order, also one without rows. Hand out only the tokens that Commit leaves in the results.
//  9. Do not look at a plan after its Commit, nor at what Events returned after the next change.
//  10. Do not change Request.Prompt while the sequence lives.
//  11. After Next, whether it makes a plan or not, take Fetches. Read these blocks once all plans begun before are
//     committed, since their moves may store them, and tell Arrived or Lost of each, in any order. Keep what has
//     arrived as long as it is Expected, and what a plan moves to the device until that plan is carried out.
package sched
