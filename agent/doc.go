// Package agent makes one turn: it assembles the prompt, asks the model, runs the tools that the model asks for, and
// returns the turn's result.
//
// It promises:
//
//   - A turn resumes (G5). Model answers with tool calls, and the calls, are journaled steps at counted positions. A
//     resumed turn walks the same positions. It takes recorded steps from the journal and does only the missing ones.
//   - A turn ends at text, at MaxIterations model calls, at the wall-clock limit, or when one call gave the same result
//     three times. In the last three cases the model gets one more call, without tools, to say what it has.
//   - A turn merges steers between its steps. One commit journals the steer and ends its message as merged. The
//     remaining calls of that answer are skipped. From another person's first message on, the turn has the lowest role
//     of all who spoke. A resumed turn merges the same steers at the same places.
//   - Failures are errors. If the model fails, the turn fails, and the bus schedules the next attempt. The agent never
//     answers with an apology of its own.
//   - A page of the workspace that cannot be shown fails no turn. The prompt says in a marked block that the page is
//     left out.
//   - The model sees who speaks. A line with the display name, and a label made of the immutable id, stands before each
//     message of a person. No name and no text can forge such a line. Summaries keep name and label.
//   - Untrusted text is data. Only the operator's texts (identity, user profile, tools notes, skills, global memory)
//     have role=system. Chat memory and tool results never have it.
//   - A turn that has read untrusted text is tainted, and the tools are told so: see taint.go. A call that waits for an
//     approval ends the claim with [*corebot.AwaitsApproval]. A resumed turn comes to the same call again.
//   - Requests begin alike, so that providers can cache them. The system prompt has the same bytes while its files are
//     the same. Tools are offered in one order. The part of the history that a prompt shows stays the same within a
//     turn. From turn to turn it only grows at its end, until a summary replaces it.
//   - Every request is within the context, also in the middle of a turn, whatever its tools returned. Results are
//     shortened before they are left out, and a call always keeps its result. The user's messages and the results of
//     the last answer are always there.
//   - Tools leave room. Tools that would take more than a third of a prompt are offered without their prose; see
//     [ToolTokens].
//   - No part of a session is lost in silence. A chat is told once in a session that the context is too small for the
//     session.
//   - History without room in the prompt is summarised once. A commit of its own, fenced by the lease, stores and
//     journals the summary. The model writes it; if the model cannot, an extract takes its place. The history itself
//     stays whole.
//   - If a provider finds a prompt too long, the agent asks once more with half of the prompt. If that is too long, the
//     turn fails for good.
//
// Limits: the operator's texts, the tools and the message itself cannot be shortened. If they are over the context by
// themselves, the provider refuses the request. Counts are the model's own where its vocabulary is known, and high
// estimates elsewhere. The wall-clock limit is checked between calls. A model call or a tool that has begun ends by its
// own timeout, and so does the last call.
//
// The agent keeps no state between turns.
package agent
