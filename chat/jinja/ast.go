package jinja

// at is the source line of a node.
type at int

func (l at) line() int { return int(l) }

// An expr yields a value. Each kind's eval is in eval.go.
type expr interface {
	line() int
	eval(r *run) (Value, error)
}

type (
	literal struct {
		at
		v Value
	}
	name struct {
		at
		id string
	}
	listExpr struct {
		at
		kind  listKind
		items []expr
	}
	dictExpr struct {
		at
		keys, vals []expr
	}
	attrExpr struct {
		at
		obj  expr
		name string
	}
	itemExpr struct {
		at
		obj, index expr
	}
	// sliceExpr is obj[lo:hi:step]; an absent bound is nil.
	sliceExpr struct {
		at
		obj, lo, hi, step expr
	}
	callExpr struct {
		at
		fn   expr
		args argList
	}
	// filterExpr applies a filter; fn is nil if there is none of that name, which matters only once it is reached.
	// In a filter block and after a set block, in is nil: the block's text is the input.
	filterExpr struct {
		at
		in   expr
		name string
		fn   *builtin
		args argList
	}
	testExpr struct {
		at
		in   expr
		name string
		fn   *builtin
		args argList
	}
	unaryExpr struct {
		at
		op string
		x  expr
	}
	binaryExpr struct {
		at
		op   string
		l, r expr
	}
	concatExpr struct {
		at
		parts []expr
	}
	// compareExpr is a chain like a < b <= c.
	compareExpr struct {
		at
		first expr
		ops   []comparison
	}
	// logicExpr is a chain of "and" or of "or".
	logicExpr struct {
		at
		and   bool
		parts []expr
	}
	notExpr struct {
		at
		x expr
	}
	// condExpr is "then if test else otherwise"; otherwise may be nil.
	condExpr struct {
		at
		test, then, otherwise expr
	}
)

type comparison struct {
	op string
	x  expr
}

// argList is the arguments between the parentheses of a call.
type argList struct {
	pos         []expr
	kwNames     []string
	kwVals      []expr
	star, star2 expr // *args and **kwargs
}

// A stmt acts on the run. Each kind's exec is in exec.go.
type stmt interface {
	line() int
	exec(r *run) (signal, error)
}

// signal tells the enclosing loop how a body ended.
type signal uint8

const (
	sigNone signal = iota
	sigBreak
	sigContinue
)

type (
	dataStmt struct {
		at
		text string
	}
	printStmt struct {
		at
		x expr
	}
	ifStmt struct {
		at
		tests     []expr
		bodies    [][]stmt
		otherwise []stmt
	}
	forStmt struct {
		at
		target    target
		iter      expr
		test      expr // nil without "if"
		recursive bool
		body      []stmt
		otherwise []stmt
	}
	setStmt struct {
		at
		target target
		x      expr
	}
	// setBlockStmt assigns the text its body prints, after filters.
	setBlockStmt struct {
		at
		target target
		filter *filterExpr
		body   []stmt
	}
	filterStmt struct {
		at
		filter *filterExpr
		body   []stmt
	}
	withStmt struct {
		at
		targets []target
		values  []expr
		body    []stmt
	}
	// scopeStmt is a generation block: its body in a scope of its own.
	scopeStmt struct {
		at
		body []stmt
	}
	macroStmt struct {
		at
		def *macroDef
	}
	// callStmt calls a macro and hands it its body as caller.
	callStmt struct {
		at
		call   *callExpr
		caller *macroDef
	}
	loopStmt struct {
		at
		sig signal
	}
)

// macroDef is a macro's or a call block's definition.
type macroDef struct {
	name     string
	params   []string
	defaults []expr // of the last parameters
	body     []stmt
	// Whether the body mentions these names; a macro that does not refuses such arguments.
	usesCaller, usesVarargs, usesKwargs bool
}

// target is the left side of an assignment by set, for or with: a name, an attribute of a namespace, or a tuple of
// targets.
type target struct {
	name  string
	attr  string
	tuple []target
}
