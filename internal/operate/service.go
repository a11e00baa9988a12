package operate

// Service carries out operations on one home.
type Service struct{ stores Stores }

// Stores are what a service works on.
type Stores struct {
	DeadLetters  DeadLetters
	Lives        Lives
	Audit        Audit
	Chats        Chats
	ChatSettings ChatSettings
	History      History
	Roles        Roles
	Approvals    Approvals
	Books        Books
	Parked       Parked
	Figures      Figures
}

// New is the service on some stores. All of them are required.
func New(s Stores) *Service { return &Service{s} }
