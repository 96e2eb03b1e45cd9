package cuda

import "testing"

// TestAside: so many blocks that run aside have room on a multiprocessor, and one more has not.
func TestAside(t *testing.T) {
	const most = 232448
	for _, c := range []struct{ rows, blocks int }{{1, 1}, {32, 1}, {33, 2}, {256, 2}} {
		each, all := int(asideShared(c.rows))+blockShared, most+blockShared
		if left := all - c.blocks*each; left < 0 || left >= each {
			t.Errorf("%d rows: %d blocks of %d bytes leave %d of %d", c.rows, c.blocks, each, left, all)
		}
	}
	if n := asideShared(257); n != 0 {
		t.Errorf("257 rows: %d bytes", n)
	}
}
