import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** What a peer does: it takes rules, then says how many of them an event meets. */
abstract class Peer {
    abstract void add(List<String> rules) throws Exception;

    abstract int matches(byte[] event) throws Exception;

    /** Ends what runs in the background. */
    void close() throws Exception {}

    /** Arguments: a file with an event a line, a file with a rule a line, and the seconds that may be measured for. */
    static void measure(Peer peer, String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]), StandardCharsets.UTF_8);
        List<byte[]> events = lines.stream().map(line -> line.getBytes(StandardCharsets.UTF_8)).toList();
        List<String> rules = Files.readAllLines(Path.of(arguments[1]), StandardCharsets.UTF_8);
        double seconds = Double.parseDouble(arguments[2]);
        long start = processorNanos();
        peer.add(rules);
        double added = rules.size() / ((processorNanos() - start) / 1e9);
        long began = System.nanoTime();
        double best = Double.MAX_VALUE;
        long matched = 0;
        boolean isWhole = false;
        for (int round = 0; round < 6; round++) {
            long before = processorNanos();
            long found = 0;
            int done = 0;
            for (byte[] event : events) {
                found += peer.matches(event);
                done++;
                if ((System.nanoTime() - began) / 1e9 > seconds && done >= 5) {
                    break;
                }
            }
            best = Math.min(best, (processorNanos() - before) / 1e3 / done);
            if (done == events.size()) {
                isWhole = true;
                matched = found;
            } else if (!isWhole) {
                matched = -1;
            }
            if ((System.nanoTime() - began) / 1e9 > seconds) {
                break;
            }
        }
        peer.close();
        System.out.printf("{\"us\": %.2f, \"matches\": %d, \"rules_per_s\": %.0f}%n", best, matched, added);
    }

    private static long processorNanos() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
