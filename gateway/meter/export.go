package meter

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"
)

// columns of what was used, in CSV.
var columns = []string{"hour", "key", "team", "model", "requests", "input_tokens", "cached_tokens", "output_tokens", "cost"}

// exported is a Row in JSON.
type exported struct {
	Hour     string  `json:"hour"`
	Key      string  `json:"key"`
	Team     string  `json:"team"`
	Model    string  `json:"model"`
	Requests int64   `json:"requests"`
	Input    int64   `json:"input_tokens"`
	Cached   int64   `json:"cached_tokens"`
	Output   int64   `json:"output_tokens"`
	Cost     float64 `json:"cost"`
}

// Export writes rows in order, as "csv" or else as JSON.
func Export(w io.Writer, format string, rows []Row) error {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Team, b.Team), cmp.Compare(a.Model, b.Model))
	})
	if format != "csv" {
		list := []exported{}
		for _, r := range rows {
			list = append(list, exported{r.Hour.Format(time.RFC3339), r.Key, r.Team, r.Model, r.Requests, r.Input, r.Cached, r.Output, r.Cost()})
		}
		return json.NewEncoder(w).Encode(map[string]any{"usage": list})
	}
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, r := range rows {
		if err := out.Write([]string{r.Hour.Format(time.RFC3339), r.Key, r.Team, r.Model, number(r.Requests), number(r.Input),
			number(r.Cached), number(r.Output), strconv.FormatFloat(r.Cost(), 'f', -1, 64)}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
