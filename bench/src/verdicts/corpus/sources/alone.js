// Computes in the main thread.
let sum = 0;
for (let i = 1; i < 250000000; i++) sum = (sum * 31 + i) % 1000003;
console.log(sum);
