// Derives keys in the pool of threads of libuv.
const crypto = require('crypto');
let left = 60;
for (let i = 0; i < 60; i++) {
  crypto.pbkdf2('word' + i, 'salt', 60000, 64, 'sha512', (error) => {
    if (error) throw error;
    if (--left === 0) console.log('done');
  });
}
