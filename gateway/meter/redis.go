package meter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// redis is a store in Redis or Valkey. An operation is one call of a script, which these carry out and log as a whole.
type redis struct {
	client rueidis.Client
	script *rueidis.Lua
}

// keptRows is how long Redis keeps what was used.
const keptRows = 400 * 24 * time.Hour

// All keys have one hash tag, so that a cluster keeps them together.
// KEYS: the operation's id, the id that it undoes, the hours' rows, the set of hours, and the counters.
// ARGV: how long ids are kept (ms), 1 if it undoes, the number of counters, for each an amount, the most and the end
// (ms), then, if it has a row, the hour, how long rows are kept (s) and pairs of a field and an amount.
const redisScript = `
if redis.call('EXISTS', KEYS[1]) == 1 then return -1 end
local n = tonumber(ARGV[3])
if ARGV[2] == '1' then
	redis.call('SET', KEYS[1], '', 'PX', ARGV[1])
	if redis.call('EXISTS', KEYS[2]) == 0 then
		redis.call('SET', KEYS[2], '', 'PX', ARGV[1])
		return -1
	end
end
for i = 0, n - 1 do
	local amount, most = tonumber(ARGV[4 + 3 * i]), tonumber(ARGV[5 + 3 * i])
	if most > 0 and amount > 0 and tonumber(redis.call('GET', KEYS[5 + i]) or '0') + amount > most then return i end
end
redis.call('SET', KEYS[1], '', 'PX', ARGV[1])
for i = 0, n - 1 do
	redis.call('INCRBY', KEYS[5 + i], ARGV[4 + 3 * i])
	redis.call('PEXPIREAT', KEYS[5 + i], ARGV[6 + 3 * i])
end
local at = 4 + 3 * n
if ARGV[at] then
	redis.call('ZADD', KEYS[4], ARGV[at], ARGV[at])
	for i = at + 2, #ARGV, 2 do redis.call('HINCRBY', KEYS[3], ARGV[i], ARGV[i + 1]) end
	redis.call('EXPIRE', KEYS[3], ARGV[at + 1])
end
return -1
`

func openRedis(url string) (*redis, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, errors.New("meter: the URL of Redis cannot be read") // the error may show a password
	}
	o.DisableCache = true
	o.DisableRetry = true // apply tries again
	o.Dialer.Timeout = time.Second
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("meter: Redis: %w", err)
	}
	return &redis{client, rueidis.NewLuaScript(redisScript)}, nil
}

func (r *redis) shared() bool { return true }

const redisPrefix = "{kvasir}:"

func (r *redis) apply(ctx context.Context, op operation) (int, error) {
	keys := []string{redisPrefix + "op:" + op.id, redisPrefix + "op:" + op.undoes, redisPrefix + "rows:0", redisPrefix + "hours"}
	undoes := "0"
	if op.undoes != "" {
		undoes = "1"
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	args := []string{number(remembered.Milliseconds()), undoes, strconv.Itoa(len(op.charges))}
	for _, c := range op.charges {
		keys = append(keys, redisPrefix+"c:"+c.counter)
		args = append(args, number(c.amount), number(c.most), number(c.ends.UnixMilli()))
	}
	if row := op.row; row != nil {
		hour := number(row.Hour.Unix())
		keys[2] = redisPrefix + "rows:" + hour
		args = append(args, hour, number(int64(keptRows/time.Second)))
		for field, n := range row.Use.fields() {
			if *n != 0 {
				args = append(args, strings.Join([]string{row.Key, row.Team, row.Model, fieldNames[field]}, "\x00"), number(*n))
			}
		}
	}
	var said error
	for {
		short, err := r.script.Exec(ctx, r.client, keys, args).AsInt64()
		if err == nil {
			return int(short), nil
		}
		if said = why(said, err); ctx.Err() != nil {
			return -1, fmt.Errorf("meter: Redis: %w", said)
		}
		pause(ctx) // the operation has an id, so that it is applied once
	}
}

var fieldNames = [...]string{"requests", "input", "cached", "output", "nanos"}

// fields are the numbers of a use in the order of their names.
func (u *Use) fields() [len(fieldNames)]*int64 {
	return [...]*int64{&u.Requests, &u.Input, &u.Cached, &u.Output, &u.Nanos}
}

func (r *redis) usage(ctx context.Context, from, to time.Time) ([]Row, error) {
	hours, err := r.client.Do(ctx, r.client.B().Zrangebyscore().Key(redisPrefix+"hours").
		Min(strconv.FormatInt(from.Unix(), 10)).Max("("+strconv.FormatInt(to.Unix(), 10)).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("meter: Redis: %w", err)
	}
	var all []Row
	for _, hour := range hours {
		fields, err := r.client.Do(ctx, r.client.B().Hgetall().Key(redisPrefix+"rows:"+hour).Build()).AsIntMap()
		if err != nil {
			return nil, fmt.Errorf("meter: Redis: %w", err)
		}
		unix, err := strconv.ParseInt(hour, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("meter: Redis has an hour %q", hour)
		}
		rows := map[string]*Row{}
		for name, n := range fields {
			parts := strings.Split(name, "\x00")
			if len(parts) != 4 {
				return nil, fmt.Errorf("meter: Redis has a field %q", name)
			}
			id := strings.Join(parts[:3], "\x00")
			if rows[id] == nil {
				rows[id] = &Row{Hour: time.Unix(unix, 0).UTC(), Key: parts[0], Team: parts[1], Model: parts[2]}
			}
			for i, into := range rows[id].Use.fields() {
				if fieldNames[i] == parts[3] {
					*into = n
				}
			}
		}
		for _, row := range rows {
			all = append(all, *row)
		}
	}
	return all, nil
}

func (r *redis) Close() error {
	r.client.Close()
	return nil
}
