package main

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

type devicesCmd struct {
	JSON bool `name:"json" help:"Print JSON, one object in a list for each device."`
}

func (devicesCmd) Help() string {
	return `Lists the devices that models can run on, the one that auto means first, and why a device that is there cannot be used.

Examples:
  kvasir devices
  kvasir serve --device cpu`
}

func (c *devicesCmd) Run() error {
	found := compute.Devices()
	if c.JSON {
		return printJSON(found)
	}
	for _, d := range found {
		line := fmt.Sprintf("%-8s %s", d.Name, d.What)
		if d.Memory > 0 {
			line += fmt.Sprintf(", %.1f GiB of memory", float64(d.Memory)/(1<<30))
		}
		if d.Free > 0 {
			line += fmt.Sprintf(", %.1f GiB free", float64(d.Free)/(1<<30))
		}
		if d.Unused != "" {
			line += "; not used: " + d.Unused
		}
		fmt.Println(line)
	}
	return nil
}
