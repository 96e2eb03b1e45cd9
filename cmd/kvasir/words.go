package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// room is the name of a package at the beginning of an error, which tells a user nothing.
var room = regexp.MustCompile(`(^|: )(text|forge|compute|cpu|cuda|engine|kv|sched|weights|loader|family|model|server|quant|tokenizer|sampling|` +
	`hub|tier|gateway|store|chat|jinja|grammar|events|shelf|residency|bench): `)

// rewordings say in plain words what libraries say in those of Go.
var rewordings = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`expected a valid \d+ bit int but got ("[^"]*")`), "$1 is not a whole number, or too large"},
	{regexp.MustCompile(`expected a valid \d+ bit uint but got ("[^"]*")`), "$1 is not a whole number of at least 0, or too large"},
	{regexp.MustCompile(`expected a float but got ("[^"]*") \(string\)`), "$1 is not a number"},
	{regexp.MustCompile(`expected duration but got ("[^"]*"): .*`), "$1 is not a time; want a number and a unit, such as 10s or 5m"},
	{regexp.MustCompile(`^(--[a-z-]+): expected \w+ value but got "([^"]*)" \(short flag\).*`), "$1 wants a value, and $2 looks like a flag; if it is the value, write $1=$2"},
	{regexp.MustCompile(`^<[a-z-]+>: (.*no such file)`), "$1"},
	{regexp.MustCompile(`missing value, expecting "<arg>"`), "its value is missing"},
	{regexp.MustCompile(`^expected "(<[^"]*)"`), "missing: $1"},
	{regexp.MustCompile(`^unexpected argument ("?)(.+?)("?)(, did you mean .*)?$`), "there is no command or further argument \"$2\" here$4"},
	{regexp.MustCompile(`\b(stat|lstat|open) (\S+): no such file or directory`), "$2: no such file or folder"},
	{regexp.MustCompile(`\b(stat|lstat|open|mkdir|remove) (\S+): permission denied`), "no permission for $2"},
	{regexp.MustCompile(`dial tcp: lookup (\S+)( on \S+)?: no such host`), "there is no host $1, or no way to it"},
	{regexp.MustCompile(`dial tcp (\S+): connect: `), "connecting to $1: "},
	{regexp.MustCompile(` exists already$`), " exists already; --force replaces it"},
}

var manyBytes = regexp.MustCompile(`\b(\d{5,}) bytes\b`)

// forPeople words an error without the packages that it came through, and without the words of libraries.
func forPeople(err error) string { return plainWords(err.Error()) }

func plainWords(s string) string {
	for before := ""; before != s; {
		before, s = s, room.ReplaceAllString(s, "$1")
	}
	for _, r := range rewordings {
		s = r.from.ReplaceAllString(s, r.to)
	}
	return manyBytes.ReplaceAllStringFunc(s, func(m string) string {
		n, err := strconv.ParseInt(strings.TrimSuffix(m, " bytes"), 10, 64)
		if err != nil {
			return m
		}
		return bytes(n)
	})
}

// misread words an error of the command line. A guess that has little in common with what was typed is left out.
func misread(err error) string {
	s := err.Error()
	var typed, guess string
	if before, _, ok := strings.Cut(s, ", did you mean"); ok {
		if n, _ := fmt.Sscanf(s, "unexpected argument %s did you mean %q", &typed, &guess); n == 2 && typed[0] != guess[0] {
			s = before
		}
	}
	return plainWords(s)
}
