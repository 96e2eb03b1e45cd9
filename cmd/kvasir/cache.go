package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/kvasir-llm/kvasir/hub"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

type listCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (listCmd) Help() string { return "Examples:\n  kvasir list\n  kvasir list --json" }

func (c *listCmd) Run() error {
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	models, err := client.List()
	if err != nil {
		return err
	}
	type row struct {
		Name     string    `json:"name"`
		Format   string    `json:"format"`
		Size     int64     `json:"size"`
		Modified time.Time `json:"modified,omitzero"`
		Path     string    `json:"path,omitempty"` // none for what is inside the program
	}
	rows := []row{{Name: builtin.Name, Format: "built-in", Size: builtin.Size()}}
	for _, m := range models {
		rows = append(rows, row{m.Name.String(), string(m.Format), m.Size, m.Modified, m.Path})
	}
	if c.JSON {
		return printJSON(rows)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tFORMAT\tSIZE\tMODIFIED")
	for _, r := range rows {
		modified := "-"
		if !r.Modified.IsZero() {
			modified = r.Modified.Local().Format("2006-01-02 15:04")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Format, bytes(r.Size), modified)
	}
	return w.Flush()
}

type rmCmd struct {
	Model string `arg:"" help:"owner/name as kvasir list shows it; with :TAG only that quantisation."`
}

func (rmCmd) Help() string {
	return "Examples:\n  kvasir rm Qwen/Qwen3-0.6B\n  kvasir rm Qwen/Qwen3-0.6B-GGUF:Q8_0"
}

func (c *rmCmd) Run() error {
	if c.Model == builtin.Name {
		return usageError{c.Model + " is part of the program"}
	}
	n, err := hub.ParseName(c.Model)
	if err != nil {
		return err
	}
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	freed, err := client.Remove(n)
	if err != nil {
		return err
	}
	fmt.Printf("removed %s, %s freed\n", c.Model, bytes(freed))
	return nil
}
