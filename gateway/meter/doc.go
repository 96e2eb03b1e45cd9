// Package meter counts what the users of a gateway use, refuses what goes beyond their limits, and adds up what it
// costs. A request reserves what it may use before it goes and settles with what it used, so that requests at once
// cannot use more than a limit together. Counters are in a Store: an SQLite file, PostgreSQL or Redis. The package
// knows nothing of HTTP, keys or endpoints. Read Meter first.
package meter
