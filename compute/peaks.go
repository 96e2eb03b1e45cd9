package compute

// Peaks are the limits of a device, per second: what loops reach that do one thing and nothing else. Kernels and models
// are measured against them. The zero Peaks are unknown.
type Peaks struct {
	Read   float64 // bytes read from memory
	Floats float64 // float32 operations, or what the device does in their place; a multiply-add is two
	Pairs  float64 // operations on 16-bit numbers; where no instruction does more of them, those of float32
	Bytes  float64 // operations on bytes, of the dot products that quantised weights need; a multiply-add is two
	Float8 float64 // operations on numbers of F8_E4M3; 0: they are done in another type, as Floats
}

// Max returns the greater of each peak.
func (p Peaks) Max(o Peaks) Peaks {
	return Peaks{max(p.Read, o.Read), max(p.Floats, o.Floats), max(p.Pairs, o.Pairs), max(p.Bytes, o.Bytes), max(p.Float8, o.Float8)}
}

// Meter measures the peaks of a device.
type Meter interface {
	// Peaks measures for about half a second. Other work on the machine lowers what it finds.
	Peaks() (Peaks, error)
	Close() error
}
