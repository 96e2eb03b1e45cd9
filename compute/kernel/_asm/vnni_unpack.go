package main

import "fmt"

// masks sets Z29 to Z31.
func (c *codes) masks() []string {
	switch {
	case c.levels != nil:
		return append(bytesOf(0x0f, "Z30"), "VBROADCASTI32X4 "+c.table()+"<>(SB), Z31")
	case c.bits == 2:
		return bytesOf(0x03, "Z30")
	case c.bits == 3:
		return join(bytesOf(0x03, "Z30"), bytesOf(0x04, "Z31"))
	case c.bits == 4:
		return bytesOf(0x0f, "Z30")
	case c.bits == 5:
		return join(bytesOf(0x0f, "Z30"), bytesOf(0x10, "Z31"))
	case c.bits == 6:
		return join(bytesOf(0x0f, "Z29"), bytesOf(0x3f, "Z30"), bytesOf(0x03, "Z31"))
	}
	return nil
}

// table names the table of a kind's levels.
func (c *codes) table() string { return "levels" + c.name }

// unpack makes Z27 the levels of group 4v+i of the block at p. It may use Z28.
func (c *codes) unpack(v, i int, p string) []string {
	part := func(line, shift int, mask string) []string {
		if shift == 0 {
			return list(fmt.Sprintf("VPANDQ %s, %s, Z27", at(line, p), mask))
		}
		return list(fmt.Sprintf("VPSRLW $%d, %s, Z27", shift, at(line, p)), "VPANDQ "+mask+", Z27, Z27")
	}
	var ops []string
	switch c.bits {
	case 8:
		return list(fmt.Sprintf("VMOVDQU64 %s, Z27", at(256*v+64*i, p)))
	case 4, 5:
		ops = part(128*v+64*(i/2), i%2*4, "Z30")
	case 2, 3:
		ops = part(64*v, 2*i, "Z30")
	case 6:
		if i < 3 {
			return part(192*v+64*i, 0, "Z30")
		}
		return list(
			"VPSRLW $2, "+at(192*v, p)+", Z27",
			"VPSRLW $4, "+at(192*v+64, p)+", Z28", "VPTERNLOGQ $0xd8, Z29, Z28, Z27",
			"VPSRLW $6, "+at(192*v+128, p)+", Z28", "VPTERNLOGQ $0xd8, Z31, Z28, Z27",
			"VPANDQ Z30, Z27, Z27")
	}
	if c.bits%2 == 1 {
		ops = append(ops, fmt.Sprintf("KMOVQ %s, K1", at(64*(c.bits-1)+32*v+8*i, p)), "VPADDB Z31, Z27, K1, Z27")
	}
	if c.levels != nil {
		ops = append(ops, "VPSHUFB Z27, Z31, Z27")
	}
	return ops
}

// levelTables writes the levels of codes that number them.
func levelTables(a *asm) {
	for _, c := range kinds {
		if c.levels != nil {
			a.data(c.table(), c.levels[:])
		}
	}
}
