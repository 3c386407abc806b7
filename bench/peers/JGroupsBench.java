import java.nio.ByteBuffer;

import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;
import org.jgroups.Version;

/**
 * One process of the JGroups measurement: {@code send CONFIG SIZE SECONDS RECEIVERS} or
 * {@code receive CONFIG SIZE SECONDS}. It speaks in lines on standard output, and never lives longer
 * than its time limit.
 *
 * The first byte of a message says what it is: 0 warms up the virtual machines and is not counted,
 * 1 counts, 2 is the end and carries how many were sent.
 */
public final class JGroupsBench {
    private static final byte WARM = 0;
    private static final byte DATA = 1;
    private static final byte END = 2;
    private static final double WARM_SECONDS = 2.0;

    public static void main(String[] args) throws Exception {
        final String role = args[0];
        final int size = Integer.parseInt(args[2]);
        final double seconds = Double.parseDouble(args[3]);
        limitLife((long) ((WARM_SECONDS + seconds + 60) * 1000));
        final JChannel channel = new JChannel(args[1]);
        channel.setOpt(JChannel.LOCAL, Boolean.FALSE);
        if (role.equals("receive")) channel.setReceiver(new Counter());
        channel.connect("peers");
        System.out.println("joined " + Version.printVersion());
        System.out.flush();
        if (role.equals("send")) send(channel, size, seconds, Integer.parseInt(args[4]));
        Thread.sleep(Long.MAX_VALUE); // the parent ends us: others may still ask for repairs
    }

    private static void send(JChannel channel, int size, double seconds, int receivers) throws Exception {
        final long deadline = System.nanoTime() + 20_000_000_000L;
        while (channel.getView().size() < receivers + 1) {
            if (System.nanoTime() > deadline) {
                System.out.println("only " + channel.getView().size() + " members joined");
                System.exit(1);
            }
            Thread.sleep(20);
        }
        burst(channel, WARM, size, WARM_SECONDS);
        final long sent = burst(channel, DATA, size, seconds);
        final byte[] end = ByteBuffer.allocate(9).put(END).putLong(sent).array();
        channel.send(new Message(null, null, end));
        System.out.println("sent " + sent);
        System.out.flush();
    }

    private static long burst(JChannel channel, byte kind, int size, double seconds) throws Exception {
        final byte[] payload = new byte[size];
        payload[0] = kind;
        final long stop = System.nanoTime() + (long) (seconds * 1e9);
        long sent = 0;
        while (System.nanoTime() < stop) {
            for (int i = 0; i < 50; i++) channel.send(new Message(null, null, payload));
            sent += 50;
        }
        return sent;
    }

    private static void limitLife(final long milliseconds) {
        final Thread watchdog = new Thread(() -> {
            try {
                Thread.sleep(milliseconds);
            } catch (InterruptedException ignored) {
                return;
            }
            Runtime.getRuntime().halt(1);
        });
        watchdog.setDaemon(true);
        watchdog.start();
    }

    /** Messages of one sender arrive in order on one thread at a time. */
    private static final class Counter extends ReceiverAdapter {
        private long received;
        private long start;

        @Override
        public synchronized void receive(Message message) {
            final byte[] data = message.getRawBuffer();
            final int offset = message.getOffset();
            switch (data[offset]) {
                case DATA:
                    if (received == 0) start = System.nanoTime();
                    received++;
                    break;
                case END:
                    final double elapsed = (System.nanoTime() - start) / 1e9;
                    final long sent = ByteBuffer.wrap(data, offset + 1, 8).getLong();
                    System.out.println("report " + received + " " + sent + " " + elapsed);
                    System.out.flush();
                    break;
                default:
            }
        }
    }
}
