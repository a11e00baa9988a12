package corebot

// FileSum is what files take: their bytes, and how many files, directories and links there are.
type FileSum struct {
	Bytes   int64 `json:"bytes"`
	Entries int64 `json:"entries"`
}

// Minus is what f has more than g; less is negative.
func (f FileSum) Minus(g FileSum) FileSum { return FileSum{f.Bytes - g.Bytes, f.Entries - g.Entries} }

// FileCharge is what the folders of chats in the workspace hold on account of one principal. Where the channel could
// not name the sender, the chat is charged.
type FileCharge struct {
	Principal Principal `json:"principal"`
	Chat      string    `json:"chat,omitempty"` // of a principal without an id: [Key.String]
	FileSum
	Chats int64 `json:"chats"` // in how many
}
