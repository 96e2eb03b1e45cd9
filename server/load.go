package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Headers of ORCA's load reports: the format that a request asks for, and the report on the answer to it.
const (
	loadFormat = "Endpoint-Load-Metrics-Format"
	loadReport = "Endpoint-Load-Metrics"
)

// report tells a client that asks for it how loaded a model's engine is, as a text or as JSON, under vLLM's names.
func report(w http.ResponseWriter, r *http.Request, m *Served) {
	format := strings.ToUpper(r.Header.Get(loadFormat))
	if format != "TEXT" && format != "JSON" {
		return
	}
	now := m.Engine.Report()
	used := strconv.FormatFloat(now.Usage(), 'g', -1, 64)
	shape := "TEXT named_metrics.kv_cache_usage_perc=%s, named_metrics.num_requests_waiting=%d"
	if format == "JSON" {
		shape = `JSON {"named_metrics": {"kv_cache_usage_perc": %s, "num_requests_waiting": %d}}`
	}
	w.Header().Set(loadReport, fmt.Sprintf(shape, used, now.Waiting))
}

// serverLoad is the answer of /load.
type serverLoad struct {
	Sequences int `json:"server_load"`
}

// load answers with the number of sequences in all engines, computed and waiting.
func (s *Server) load(w http.ResponseWriter, _ *http.Request) {
	n := 0
	for _, m := range s.present() {
		now := m.Engine.Report()
		n += now.Running + now.Waiting
	}
	s.write(w, http.StatusOK, serverLoad{n})
}
