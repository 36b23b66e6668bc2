# Computes in one thread.
total = 0
for i in range(12_000_000):
    total = (total * 31 + i) % 1000003
print(total)
