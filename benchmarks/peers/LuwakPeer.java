import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.List;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamReader;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import uk.co.flax.luwak.InputDocument;
import uk.co.flax.luwak.Monitor;
import uk.co.flax.luwak.MonitorQuery;
import uk.co.flax.luwak.matchers.SimpleMatcher;
import uk.co.flax.luwak.presearcher.MultipassTermFilteredPresearcher;
import uk.co.flax.luwak.queryparsers.LuceneQueryParser;

/** Luwak, which became Lucene's monitor: XML read by StAX into fields, Lucene queries. */
public final class LuwakPeer extends Peer {
    private static final Analyzer WHOLE = new KeywordAnalyzer();
    private static final Analyzer WORDS = new WhitespaceAnalyzer();

    private final XMLInputFactory factory = XMLInputFactory.newInstance();
    private final Monitor monitor;

    private LuwakPeer() throws Exception {
        monitor = new Monitor(new LuceneQueryParser("value", WHOLE), new MultipassTermFilteredPresearcher(4, 0.0f));
    }

    @Override
    void add(List<String> rules) throws Exception {
        List<MonitorQuery> queries = new ArrayList<>();
        for (int number = 0; number < rules.size(); number++) {
            queries.add(new MonitorQuery(Integer.toString(number), rules.get(number)));
        }
        monitor.update(queries);
    }

    @Override
    int matches(byte[] event) throws Exception {
        return monitor.match(document(event), SimpleMatcher.FACTORY).getMatchCount("event");
    }

    @Override
    void close() throws Exception {
        monitor.close();
    }

    private InputDocument document(byte[] event) throws Exception {
        InputDocument.Builder document = InputDocument.builder("event");
        XMLStreamReader reader = factory.createXMLStreamReader(new ByteArrayInputStream(event));
        StringBuilder text = new StringBuilder();
        String kind = "";
        while (reader.hasNext()) {
            switch (reader.next()) {
                case XMLStreamConstants.START_ELEMENT -> text.setLength(0);
                case XMLStreamConstants.CHARACTERS -> text.append(reader.getText());
                case XMLStreamConstants.END_ELEMENT -> {
                    String name = reader.getLocalName();
                    String value = text.toString();
                    switch (name) {
                        case "scheme", "what" -> kind = value;
                        case "value" -> {
                            if (kind.startsWith("m")) {
                                document.addField(kind, String.format("%04d", Integer.parseInt(value)), WHOLE);
                            } else {
                                document.addField("value", value, WHOLE);
                                document.addField(kind, value, WHOLE);
                            }
                        }
                        case "sender", "status", "event", "urgency", "severity" ->
                            document.addField(name, value, WHOLE);
                        case "text" -> document.addField(name, value, WORDS);
                        default -> { }
                    }
                    text.setLength(0);
                }
                default -> { }
            }
        }
        return document.build();
    }

    public static void main(String[] arguments) throws Exception {
        measure(new LuwakPeer(), arguments);
    }
}
