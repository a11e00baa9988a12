// Writes a question set as JSON, one conversation a line: its texts with ids, and its questions with the ids of the texts
// that answer them.
//
//   node sets.mjs locomo FILE...   LoCoMo (Maharana et al., 2024): one file of all conversations, or one for each
//   node sets.mjs perlfaq FILE...  the FAQ of Perl, in POD: a heading is a question, the paragraphs below it answer it
import { readFileSync } from "node:fs";

const [kind, ...files] = process.argv.slice(2);

function locomo(sample, name) {
  const talk = sample.conversation ?? sample;
  const texts = [];
  for (const [key, turns] of Object.entries(talk)) {
    if (!/^session_\d+$/.test(key) || !Array.isArray(turns)) continue;
    for (const turn of turns) {
      const image = turn.blip_caption ? ` [an image: ${turn.blip_caption}]` : "";
      texts.push({ id: turn.dia_id, text: `${turn.speaker}: ${turn.clean_text ?? turn.text}${image}` });
    }
  }
  const ids = new Set(texts.map((t) => t.id));
  const questions = [];
  for (const q of sample.qa ?? []) {
    const answers = [...new Set((q.evidence ?? []).flatMap((e) => e.split(/[;,\s]+/)).filter((e) => ids.has(e)))];
    if (q.category !== 5 && answers.length > 0) questions.push({ text: q.question, answers }); // 5 has no answer
  }
  return { name, texts, questions };
}

function perlfaq(pod, name) {
  const texts = [];
  const questions = [];
  for (const part of pod.split(/^=head2 /m).slice(1)) {
    const [heading, ...rest] = part.split("\n");
    const plain = (s) => s.replace(/[A-Z]<+\s?([^<>]*?)\s?>+/g, "$1").trim();
    const answers = [];
    for (const paragraph of rest.join("\n").split(/^=head1 /m)[0].split(/\n\s*\n/)) {
      if (paragraph.trim() === "" || paragraph.startsWith("=") || /^\s/.test(paragraph)) continue;
      const id = `${questions.length}.${answers.length}`;
      answers.push(id);
      texts.push({ id, text: plain(paragraph) });
    }
    if (answers.length > 0) questions.push({ text: plain(heading), answers });
  }
  return { name, texts, questions };
}

for (const file of files) {
  const text = readFileSync(file, "utf8");
  const name = file.replace(/.*\//, "").replace(/\.[a-z]+$/, "");
  if (kind === "perlfaq") {
    console.log(JSON.stringify(perlfaq(text, name)));
    continue;
  }
  const samples = JSON.parse(text);
  (Array.isArray(samples) ? samples : [samples]).forEach((s, i) =>
    console.log(JSON.stringify(locomo(s, s.sample_id ?? `${name}-${i}`))));
}
