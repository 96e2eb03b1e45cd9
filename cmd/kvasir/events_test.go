package main

import "testing"

func TestEventFlags(t *testing.T) {
	for _, f := range []eventFlags{
		{Replay: "tcp://*:1"}, {Topic: "kv"}, {Events: "5557"}, {Events: "tcp://*:1", Replay: "udp://*:2"}, {Events: "tcp://*:1", HWM: -1},
	} {
		if f.HWM == 0 {
			f.HWM = 1
		}
		f.Buffer = 1
		if err := f.check(); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	if err := (&eventFlags{HWM: 1, Buffer: 1, Events: "tcp://*:5557", Replay: "tcp://*:5558"}).check(); err != nil {
		t.Error(err)
	}
	for in, want := range map[string]string{"tcp://*:5557": "tcp://*:5559", "tcp://*:*": "tcp://*:*", "": ""} {
		if got, err := shifted(in, 2); got != want || err != nil {
			t.Errorf("%s for the third model is %s, %v; want %s", in, got, err, want)
		}
	}
	if got, err := shifted("ipc:///tmp/kv", 1); err == nil {
		t.Errorf("two models share %s", got)
	}
}
