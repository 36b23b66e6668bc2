import java.util.stream.LongStream;

/** Sums in the common pool, with garbage for the collector. */
public class Pool {
    public static void main(String[] arguments) {
        long sum = 0;
        for (int round = 0; round < 40; round++) {
            int seed = round;
            sum += LongStream.range(0, 60_000).parallel().map(i -> {
                StringBuilder text = new StringBuilder();
                for (int k = 0; k < 8; k++) {
                    text.append(i * 31 + seed + k);
                }
                return text.toString().hashCode();
            }).sum();
        }
        System.out.println(sum);
    }
}
