package weights

// Release tells the system that data, all or part of a tensor's, will not be read soon, so that its pages need not stay
// in memory. Reading it again is slow and gives the same bytes.
func (c *Checkpoint) Release(data []byte) {
	if p, at, ok := c.find(data); ok {
		notNeeded(&c.parts[p].mapping, at, at+len(data))
	}
}
