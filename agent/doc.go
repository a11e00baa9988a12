// Package agent makes one turn: it assembles the prompt, asks the model, runs the tools that the model asks for, and returns
// what the turn leaves behind.
//
// It promises:
//
//   - A turn resumes (G5). Model answers that ask for tools, and tool calls, are journaled steps at counted positions. A turn
//     that is run again walks the same positions and takes from the journal what is there; only what is missing is done.
//   - A turn ends. At text, at MaxIterations model calls, at the wall-clock limit, or when one call gave the same result three
//     times; in the last three cases the model gets one more call, without tools, to say what it has.
//   - Failures are errors. A model that fails makes the turn fail, to be retried by the rules of the bus; it is never answered with
//     an apology of the agent's own.
//   - Text from outside is data. Only what the operator wrote (identity, user profile, tools notes, global memory) is in
//     role=system; chat memory and tool results never are.
//   - The system prompt is the same byte for byte while the files behind it are, so that providers can cache it.
//   - The prompt has a budget in tokens. History is taken newest first, in whole turns: a tool call is never parted from its
//     result.
//
// The agent keeps no state between turns.
package agent
