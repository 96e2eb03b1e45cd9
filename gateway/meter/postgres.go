package meter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kvasir-llm/kvasir/guard"
)

// postgres is a store in a PostgreSQL database. An operation is one call of a function there.
type postgres struct {
	pool *pgxpool.Pool
	stop context.CancelFunc
	swep sync.WaitGroup
}

// The function raises P0429 with the index of the charge that lacks room, which undoes all that it did. Charges come in
// the order of their counters' names, so that two operations never wait for each other.
const postgresSchema = `
CREATE SCHEMA IF NOT EXISTS kvasir;
CREATE TABLE IF NOT EXISTS kvasir.counters (name text PRIMARY KEY, value bigint NOT NULL, ends timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS kvasir.operations (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS kvasir.rows (
	hour timestamptz NOT NULL, key text NOT NULL, team text NOT NULL, model text NOT NULL, requests bigint NOT NULL,
	input bigint NOT NULL, cached bigint NOT NULL, output bigint NOT NULL, nanos bigint NOT NULL,
	PRIMARY KEY (hour, key, team, model));
CREATE OR REPLACE FUNCTION kvasir.apply(the_id text, undoes text, names text[], amounts bigint[], mosts bigint[],
	ends timestamptz[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	now_has bigint;
BEGIN
	INSERT INTO kvasir.operations (id) VALUES (the_id) ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN RETURN false; END IF;
	IF undoes <> '' THEN
		INSERT INTO kvasir.operations (id) VALUES (undoes) ON CONFLICT DO NOTHING;
		IF FOUND THEN RETURN false; END IF;
	END IF;
	FOR i IN 1 .. coalesce(array_length(names, 1), 0) LOOP
		INSERT INTO kvasir.counters AS c VALUES (names[i], amounts[i], ends[i])
			ON CONFLICT (name) DO UPDATE SET value = c.value + amounts[i] RETURNING c.value INTO now_has;
		IF mosts[i] > 0 AND amounts[i] > 0 AND now_has > mosts[i] THEN
			RAISE EXCEPTION '%', i - 1 USING ERRCODE = 'P0429';
		END IF;
	END LOOP;
	RETURN true;
END $$;
`

const postgresAdd = `INSERT INTO kvasir.rows AS r VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
	ON CONFLICT (hour, key, team, model) DO UPDATE SET requests = r.requests + excluded.requests,
	input = r.input + excluded.input, cached = r.cached + excluded.cached, output = r.output + excluded.output,
	nanos = r.nanos + excluded.nanos`

func openPostgres(url string) (*postgres, error) {
	ctx, stop := context.WithCancel(context.Background())
	first, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		stop()
		return nil, errors.New("meter: the URL of PostgreSQL cannot be read") // the error may show a password
	}
	p := &postgres{pool: pool, stop: stop}
	err = pgx.BeginFunc(first, pool, func(tx pgx.Tx) error {
		// Gateways that start at once make the tables one after the other. The number is any.
		if _, err := tx.Exec(first, "SELECT pg_advisory_xact_lock(7514)"); err != nil {
			return err
		}
		_, err := tx.Exec(first, postgresSchema)
		return err
	})
	if err != nil {
		stop()
		pool.Close()
		return nil, fmt.Errorf("meter: PostgreSQL: %w", err)
	}
	p.swep.Add(1)
	guard.Go(func() error { defer p.swep.Done(); p.sweep(ctx); return nil }, func(error) {})
	return p, nil
}

func (p *postgres) shared() bool { return true }

// sweep forgets what has ended, once a minute.
func (p *postgres) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		// What fails is tried again.
		p.pool.Exec(ctx, "DELETE FROM kvasir.counters WHERE ends < now()")
		p.pool.Exec(ctx, "DELETE FROM kvasir.operations WHERE at < now() - make_interval(secs => $1)", remembered.Seconds())
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
}

func (p *postgres) apply(ctx context.Context, op operation) (int, error) {
	order := make([]int, len(op.charges))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(op.charges[a].counter, op.charges[b].counter) })
	var names []string
	var amounts, mosts []int64
	var ends []time.Time
	for _, i := range order {
		c := op.charges[i]
		names, amounts, mosts, ends = append(names, c.counter), append(amounts, c.amount), append(mosts, c.most), append(ends, c.ends)
	}
	var before error
	for {
		err := p.once(ctx, op, names, amounts, mosts, ends)
		var said *pgconn.PgError
		switch {
		case err == nil:
			return -1, nil
		case errors.As(err, &said) && said.Code == "P0429":
			i, err := strconv.Atoi(said.Message)
			if err != nil || i < 0 || i >= len(order) {
				return -1, fmt.Errorf("meter: PostgreSQL says that charge %q lacks room", said.Message)
			}
			return order[i], nil
		}
		if before = why(before, err); ctx.Err() != nil {
			return -1, fmt.Errorf("meter: PostgreSQL: %w", before)
		}
		pause(ctx) // the operation has an id, so that it is applied once
	}
}

// why returns which of two errors says why an operation failed: the last one, unless it says only that time is over.
func why(before, last error) error {
	if before != nil && (errors.Is(last, context.DeadlineExceeded) || errors.Is(last, context.Canceled)) {
		return before
	}
	return last
}

// pause waits before an operation is tried again.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

func (p *postgres) once(ctx context.Context, op operation, names []string, amounts, mosts []int64, ends []time.Time) error {
	const call = "SELECT kvasir.apply($1, $2, $3, $4, $5, $6)"
	if op.row == nil {
		_, err := p.pool.Exec(ctx, call, op.id, op.undoes, names, amounts, mosts, ends)
		return err
	}
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		var applied bool
		if err := tx.QueryRow(ctx, call, op.id, op.undoes, names, amounts, mosts, ends).Scan(&applied); err != nil || !applied {
			return err
		}
		r := op.row
		_, err := tx.Exec(ctx, postgresAdd, r.Hour, r.Key, r.Team, r.Model, r.Requests, r.Input, r.Cached, r.Output, r.Nanos)
		return err
	})
}

func (p *postgres) usage(ctx context.Context, from, to time.Time) ([]Row, error) {
	rows, err := p.pool.Query(ctx, `SELECT hour, key, team, model, requests, input, cached, output, nanos FROM kvasir.rows
		WHERE hour >= $1 AND hour < $2`, from, to)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Row, err error) {
		err = row.Scan(&r.Hour, &r.Key, &r.Team, &r.Model, &r.Requests, &r.Input, &r.Cached, &r.Output, &r.Nanos)
		r.Hour = r.Hour.UTC()
		return r, err
	})
}

func (p *postgres) Close() error {
	p.stop()
	p.swep.Wait()
	p.pool.Close()
	return nil
}
