import java.util.List;
import software.amazon.event.ruler.Machine;

/** event-ruler: JSON events, JSON rules. The event is parsed in the time that is measured. */
public final class RulerPeer extends Peer {
    private final Machine machine = new Machine();

    @Override
    void add(List<String> rules) throws Exception {
        for (int number = 0; number < rules.size(); number++) {
            machine.addRule(Integer.toString(number), rules.get(number));
        }
    }

    @Override
    int matches(byte[] event) throws Exception {
        return machine.rulesForJSONEvent(new String(event, java.nio.charset.StandardCharsets.UTF_8)).size();
    }

    public static void main(String[] arguments) throws Exception {
        measure(new RulerPeer(), arguments);
    }
}
