package route

// sessions remember where each session's last request went. They are kept in two generations: when the young one is
// full it becomes the old one, and what was the old one is forgotten.
type sessions struct{ young, old map[string]int }

// mostSessions is how many a generation has.
const mostSessions = 1 << 16

// find returns the endpoint of a session, -1 if there is none.
func (s *sessions) find(session string) int {
	if session == "" {
		return -1
	}
	if id, ok := s.young[session]; ok {
		return id
	}
	if id, ok := s.old[session]; ok {
		return id
	}
	return -1
}

func (s *sessions) note(session string, id int) {
	if session == "" {
		return
	}
	if s.young == nil || len(s.young) == mostSessions {
		s.old, s.young = s.young, map[string]int{}
	}
	s.young[session] = id
}

// forget leaves out the sessions of an endpoint.
func (s *sessions) forget(id int) {
	for _, m := range []map[string]int{s.young, s.old} {
		for session, at := range m {
			if at == id {
				delete(m, session)
			}
		}
	}
}
