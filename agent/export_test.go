package agent

// DataText is for the fuzz target, which has no need of a whole agent.
var DataText = dataText
