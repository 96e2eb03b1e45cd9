package ptx

// function is the body of an .entry or a .func.
type function struct {
	name       string
	params     []*variable // formal parameters, in order
	results    []*variable // of a .func
	statements []statement
	targets    []int // where branches go: statements by reference number, see operand.number
	registers  int   // registers that are not predicates, numbered from 0
	predicates int
	threads    int    // the most threads of a block; 0 if the kernel does not say
	cluster    [3]int // the cluster that the kernel wants; zero if it does not say
}

// formals returns a function's results and parameters, as calls name them.
func (f *function) formals() []*variable {
	return append(f.results[:len(f.results):len(f.results)], f.params...)
}

// statement is one instruction.
type statement struct {
	line     int
	name     string // with its modifiers, such as add.rn.f32
	guard    int    // the predicate that lanes need to execute it; -1 if there is none
	not      bool   // lanes without it execute it
	operands []operand
	callee   *function // of call.uni; its operands are the results and the arguments
}

// operandKind says what an operand is.
type operandKind uint8

const (
	register  operandKind = iota // number, width
	predicate                    // number
	immediate                    // value
	special                      // number: of specials
	symbol                       // variable
	label                        // number: of a reference, see function.targets
	vector                       // list: {a, b, ..}
	address                      // list[0] (register, symbol or immediate) + value; list[1:] are a tensor's coordinates
	pair                         // list: r|p
	nothing                      // _
)

// operand is what an instruction reads, writes or names.
type operand struct {
	kind     operandKind
	width    uint8 // of a register, bits
	number   int32
	value    uint64 // integers are sign-extended to 64 bits
	variable *variable
	list     []operand
}

// space is one of the memories.
type space uint8

const (
	generic  space = iota // the address says which
	global                // allocations, and the variables of modules
	shared                //
	local                 // of one thread
	param                 // the kernel's parameters
	argument              // parameters of functions; the compiler gives them places in local memory
)

// variable is a declared piece of memory.
type variable struct {
	name    string
	space   space
	size    int
	align   int
	offset  int  // of what is in the spaces param and global
	dynamic bool // .extern .shared: its size is the launch's
}

// specials are the registers that a warp finds set.
var specials = []string{
	"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z",
	"%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z",
	"%laneid", "%cluster_ctarank", "%cluster_nctarank",
}
