package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Names of the "object" members of files and batches.
const (
	ObjectFile  = "file"
	ObjectBatch = "batch"
)

// Purposes of files.
const (
	PurposeBatch  = "batch"        // the input of batches
	PurposeOutput = "batch_output" // their results
)

// File describes a stored file.
type File struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // ObjectFile
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`           // seconds since 1970
	ExpiresAt *int64 `json:"expires_at,omitempty"` // nil is never
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"` // "processed"
}

// Page is a part of a list of files or batches.
type Page[T any] struct {
	Object  string `json:"object"` // ObjectList
	Data    []T    `json:"data"`
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
	HasMore bool   `json:"has_more"`
}

// Batch is a file of requests that are answered when there is time.
type Batch struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"` // ObjectBatch
	Endpoint         string            `json:"endpoint"`
	Errors           *BatchErrors      `json:"errors,omitempty"` // of the input file
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           string            `json:"status"` // one of the constants below
	OutputFileID     string            `json:"output_file_id,omitempty"`
	ErrorFileID      string            `json:"error_file_id,omitempty"`
	CreatedAt        int64             `json:"created_at"` // seconds since 1970, as the other times are; 0 is not yet
	InProgressAt     int64             `json:"in_progress_at,omitempty"`
	ExpiresAt        int64             `json:"expires_at,omitempty"`
	FinalizingAt     int64             `json:"finalizing_at,omitempty"`
	CompletedAt      int64             `json:"completed_at,omitempty"`
	FailedAt         int64             `json:"failed_at,omitempty"`
	ExpiredAt        int64             `json:"expired_at,omitempty"`
	CancellingAt     int64             `json:"cancelling_at,omitempty"`
	CancelledAt      int64             `json:"cancelled_at,omitempty"`
	RequestCounts    BatchCounts       `json:"request_counts"`
	Metadata         map[string]string `json:"metadata"`
	OutputExpires    int64             `json:"output_expires_after,omitempty"` // seconds
}

// Values of Batch.Status.
const (
	BatchValidating = "validating"
	BatchFailed     = "failed"
	BatchInProgress = "in_progress"
	BatchFinalizing = "finalizing"
	BatchCompleted  = "completed"
	BatchExpired    = "expired"
	BatchCancelling = "cancelling"
	BatchCancelled  = "cancelled"
)

// BatchCounts counts the requests of a batch.
type BatchCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// BatchErrors says what is wrong with the input of a batch.
type BatchErrors struct {
	Object string       `json:"object"` // ObjectList
	Data   []BatchError `json:"data"`
}

// BatchError is one thing that is wrong.
type BatchError struct {
	Code    string `json:"code"`
	Line    *int   `json:"line"` // from 1
	Message string `json:"message"`
	Param   string `json:"param"`
}

// BatchLine is a request of a batch.
type BatchLine struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"` // "POST"
	URL      string          `json:"url"`    // the path, such as "/v1/chat/completions"
	Body     json.RawMessage `json:"body"`
}

// BatchResult is a line of a batch's output: exactly one of Response and Error is not nil.
type BatchResult struct {
	ID       string             `json:"id"`
	CustomID string             `json:"custom_id"`
	Response *BatchResponse     `json:"response"`
	Error    *BatchRequestError `json:"error"`
}

// BatchResponse is the answer to a request.
type BatchResponse struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"`
}

// BatchRequestError says why a request has no answer.
type BatchRequestError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// batchEndpoints are the paths that requests of a batch may be for.
var batchEndpoints = []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/rerank",
	"/v1/score"}

// DecodeBatchLine reads a line of a batch's input. Its error names the member at fault.
func DecodeBatchLine(line []byte) (*BatchLine, error) {
	r := &BatchLine{}
	err := wire.Decode(line, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "custom_id":
			r.CustomID, err = c.Label(MaxLabel)
		case "method":
			if r.Method, err = c.Text(); err == nil && r.Method != "POST" {
				err = c.Wrong("expected POST, found %q", wire.Clip([]byte(r.Method)))
			}
		case "url":
			if r.URL, err = c.Text(); err == nil && !slices.Contains(batchEndpoints, r.URL) {
				err = c.Wrong("expected one of %s, found %q", strings.Join(batchEndpoints, ", "), wire.Clip([]byte(r.URL)))
			}
		case "body":
			if c.Peek() != '{' {
				return c.Mismatch("an object")
			}
			raw, err := c.Raw()
			r.Body = bytes.Clone(raw)
			return err
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.CustomID == "":
		return nil, wire.Missing("custom_id", "a name of the request")
	case r.Method == "":
		return nil, wire.Missing("method", `"POST"`)
	case r.URL == "":
		return nil, wire.Missing("url", "the path of an endpoint")
	case r.Body == nil:
		return nil, wire.Missing("body", "the request")
	}
	return r, nil
}

// BatchRequest asks for a batch.
type BatchRequest struct {
	InputFileID   string
	Endpoint      string
	OutputExpires int64 // seconds; 0 is never
	Metadata      map[string]string
}

// DecodeBatch reads the body of a request for a batch.
func DecodeBatch(body []byte) (*BatchRequest, error) {
	r, window := &BatchRequest{}, ""
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "input_file_id":
			r.InputFileID, err = c.Label(MaxLabel)
		case "endpoint":
			if r.Endpoint, err = c.Text(); err == nil && !slices.Contains(batchEndpoints, r.Endpoint) {
				err = c.Wrong("expected one of %s, found %q", strings.Join(batchEndpoints, ", "), wire.Clip([]byte(r.Endpoint)))
			}
		case "completion_window":
			if window, err = c.Text(); err == nil && window != "24h" {
				err = c.Wrong("expected 24h, found %q", wire.Clip([]byte(window)))
			}
		case "metadata":
			r.Metadata, err = metadata(c)
		case "output_expires_after":
			r.OutputExpires, err = expiry(c)
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.InputFileID == "":
		return nil, wire.Missing("input_file_id", "the id of a file")
	case r.Endpoint == "":
		return nil, wire.Missing("endpoint", "a path, such as /v1/chat/completions")
	case window == "":
		return nil, wire.Missing("completion_window", `"24h"`)
	}
	return r, nil
}

// Bounds of how long files are kept, in seconds.
const (
	MinExpiry = 3600
	MaxExpiry = 30 * 24 * 3600
)

// expiry reads {"anchor": "created_at", "seconds": N}.
func expiry(c *wire.Cursor) (seconds int64, err error) {
	err = c.Object(func(key string) error {
		switch key {
		case "anchor":
			return c.Inert(`"created_at"`)
		case "seconds":
			n, err := c.IntIn(MinExpiry, MaxExpiry)
			seconds = int64(n)
			return err
		}
		return c.Unsupported()
	})
	if err == nil && seconds == 0 {
		err = wire.Missing(c.Path()+".seconds", "a number of seconds")
	}
	return seconds, err
}
