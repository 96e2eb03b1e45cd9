package jinja

import (
	"fmt"
	"strings"
	"time"
)

// strftimeLayouts are the conversions that Go's layouts know.
var strftimeLayouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
	'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'Z': "MST", 'z': "-0700", 'e': "_2",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'c': "Mon Jan _2 15:04:05 2006",
	'x': "01/02/06", 'X': "15:04:05", 'r': "03:04:05 PM",
}

// strftime formats t as C's strftime does in the C locale.
func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		trim := format[i] == '-' && i+1 < len(format)
		if trim {
			i++
		}
		text, err := strftimeOne(t, format[i])
		if err != nil {
			return "", err
		}
		if trim && len(text) > 1 {
			text = strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func strftimeOne(t time.Time, c byte) (string, error) {
	if layout, ok := strftimeLayouts[c]; ok {
		return t.Format(layout), nil
	}
	switch c {
	case '%':
		return "%", nil
	case 'n':
		return "\n", nil
	case 't':
		return "\t", nil
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), nil
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), nil
	case 's':
		return fmt.Sprint(t.Unix()), nil
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), nil
	case 'w':
		return fmt.Sprint(int(t.Weekday())), nil
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), nil
	case 'G':
		year, _ := t.ISOWeek()
		return fmt.Sprint(year), nil
	case 'V':
		_, week := t.ISOWeek()
		return fmt.Sprintf("%02d", week), nil
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), nil
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), nil
	}
	return "", fmt.Errorf("unknown conversion %q in the time format", "%"+string(c))
}
