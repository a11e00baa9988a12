// Package agent makes one turn: it assembles the prompt, asks the model, runs the tools that the model asks for, and returns
// what the turn leaves behind.
//
// It promises:
//
//   - A turn resumes (G5). Model answers that ask for tools, and tool calls, are journaled steps at counted positions. A turn
//     that is run again walks the same positions and takes from the journal what is there; only what is missing is done.
//   - A turn ends. At text, at MaxIterations model calls, at the wall-clock limit, or when one call gave the same result three
//     times; in the last three cases the model gets one more call, without tools, to say what it has.
//   - A turn listens. What is said to it while it runs is taken in between its steps, in one commit that journals it and ends it as merged; the calls
//     that were still to run are skipped. From the first word of another person on the turn has the lowest of their roles. A resumed
//     turn hears the same at the same place.
//   - Failures are errors. A model that fails makes the turn fail, to be retried by the rules of the bus; it is never answered with
//     an apology of the agent's own.
//   - A page of the workspace that cannot be shown fails no turn: it is left out, and the prompt says so in a marked block.
//   - The model sees who speaks. Each message of a person, of this turn or an earlier one, stands behind a line with the display name and a label made of the
//     immutable id; no name and no text can write such a line. Summaries keep both.
//   - Text from outside is data. Only what the operator wrote (identity, user profile, tools notes, skills, global memory) is in
//     role=system; chat memory and tool results never are.
//   - A turn knows what it has read. From the first text on that others than the operator and its principal may have written it is tainted, and the tools are
//     told so: see taint.go. A call that waits for an admin's word ends the claim with [*corebot.Awaits]; a resumed turn comes to the same call again.
//   - Requests begin alike. The system prompt is the same byte for byte while the files behind it are, tools are offered in one order, and
//     what is shown of earlier turns stays within a turn and grows at its end from turn to turn, until a summary takes its place: so
//     that providers can cache it.
//   - Every request is within the context, also in the middle of a turn, whatever its tools returned. Results are shortened before they are
//     left out, a call is never parted from its result, and what the user said and the last answer's results are always there.
//   - Tools leave room. Where they would take more than a quarter of a prompt, they are offered without their prose; see [ToolTokens].
//   - No part of a session is lost without a word. A chat is told, once in a session, that the context is too small for it.
//   - What has no room is summarised: once, in a commit of its own that also journals it, fenced by the lease; by the model, or as an extract
//     where that cannot. Nothing is taken out of the history for it.
//   - A provider that finds a prompt too long is asked once more, with half of it; then the turn fails for good. No turn is too long twice in
//     the same way.
//
// Limits: what cannot be shortened (the operator's texts, the tools, the message itself) may be over the context by itself; the provider then says
// so. Counts are the model's own where its vocabulary is known, and estimates on the high side elsewhere. The wall-clock limit is looked at
// between calls: a model call or a tool that has begun ends by its own timeout, and so does the last call.
//
// The agent keeps no state between turns.
package agent
