package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// result is what one server reaches in one row of a group of the report.
type result struct {
	Group  string             `json:"group"`
	Series string             `json:"series"` // the model and its type, such as "8b BF16"
	Row    string             `json:"row"`    // such as "32 sequences"
	Server string             `json:"server"`
	Values map[string]float64 `json:"values"` // by metric
	// Floor is the best that the device's measured peaks allow of the group's first metric; 0: it is not known.
	Floor  float64 `json:"floor,omitempty"`
	Device string  `json:"device,omitempty"` // that it was measured on
}

// data is the content of a file of results: those of a machine, or known ones of another server.
type data struct {
	Source  string   `json:"source,omitempty"` // where known figures are from
	Results []result `json:"results"`
}

// add adds a result, in the place of an earlier one of the same row and server.
func (d *data) add(r result) {
	if old := d.find(r.Group, r.Series, r.Row, r.Server); old != nil {
		*old = r
		return
	}
	d.Results = append(d.Results, r)
}

func (d *data) find(group, series, row, server string) *result {
	i := slices.IndexFunc(d.Results, func(r result) bool {
		return r.Group == group && r.Series == series && r.Row == row && r.Server == server
	})
	if i < 0 {
		return nil
	}
	return &d.Results[i]
}

// with returns d and the results of others for rows that d has, of servers that d has none of there.
func (d *data) with(others data) data {
	all := data{Results: slices.Clone(d.Results)}
	for _, r := range others.Results {
		has := func(own result) bool { return own.Group == r.Group && own.Series == r.Series && own.Row == r.Row }
		if slices.ContainsFunc(d.Results, has) && d.find(r.Group, r.Series, r.Row, r.Server) == nil {
			all.add(r)
		}
	}
	return all
}

// servers returns whose results a group has, kvasir first.
func (d *data) servers(group string) []string {
	names := []string{ours}
	for _, r := range d.Results {
		if r.Group == group && !slices.Contains(names, r.Server) {
			names = append(names, r.Server)
		}
	}
	return names
}

// readData reads a file of results; one that is not there has none.
func readData(file string) (d data, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// write writes the results, one a line.
func (d *data) write(file string) error {
	text := []byte("{\n\"results\": [")
	for i, r := range d.Results {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, '\n'), line...)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, "\n]\n}\n"...), 0o644)
}
